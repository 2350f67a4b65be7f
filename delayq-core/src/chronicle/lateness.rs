//! Lateness of starts, in buckets.

use std::ops::AddAssign;
use std::time::Duration;

use serde::Serialize;

/// Number of buckets of a [`Lateness`]: below 1 ms, 22 that double up to 70 minutes, and above.
pub const LATENESS_BUCKETS: usize = 24;

/// Counts of starts by lateness: bucket 0 counts those less than 1 ms late, bucket n those from
/// 2^(n-1) up to 2^n ms late, the last one all above.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Lateness {
    counts: [u64; LATENESS_BUCKETS],
}

impl Lateness {
    /// Counts one start.
    pub fn record(&mut self, late: Duration) {
        let ms = u64::try_from(late.as_millis()).unwrap_or(u64::MAX);
        let bucket = ms.checked_ilog2().map_or(0, |log| log as usize + 1);
        self.add(bucket, 1);
    }

    /// Adds `count` starts to a bucket; an index that is too high means the last bucket.
    pub fn add(&mut self, bucket: usize, count: u64) {
        let bucket = bucket.min(LATENESS_BUCKETS - 1);
        if let Some(counted) = self.counts.get_mut(bucket) {
            *counted = counted.saturating_add(count);
        }
    }

    /// The counts of all buckets, in order.
    #[must_use]
    pub fn counts(&self) -> &[u64; LATENESS_BUCKETS] {
        &self.counts
    }

    /// The upper end of a bucket, exclusive. `None` for the last one.
    #[must_use]
    pub fn end(bucket: usize) -> Option<Duration> {
        let ms = (bucket < LATENESS_BUCKETS - 1).then(|| 1_u64 << bucket);
        ms.map(Duration::from_millis)
    }

    /// The number of starts counted.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.counts
            .iter()
            .fold(0, |sum, count| sum.saturating_add(*count))
    }

    /// The lateness that a share `q` (0 to 1) of the starts stayed below. This is the end of the
    /// bucket, so up to twice the real value; for the last bucket its beginning. `None` without
    /// starts.
    #[must_use]
    pub fn quantile(&self, q: f64) -> Option<Duration> {
        let bucket = self.bucket_of(q)?;
        Some(Self::end(bucket).unwrap_or(Duration::from_millis(1 << (LATENESS_BUCKETS - 2))))
    }

    /// True if the share `q` (0 to 1) of the starts ends in the last bucket. [`quantile`] is then
    /// the least lateness that it can be, and not an upper bound.
    ///
    /// [`quantile`]: Self::quantile
    #[must_use]
    pub fn is_beyond(&self, q: f64) -> bool {
        self.bucket_of(q) == Some(LATENESS_BUCKETS - 1)
    }

    /// The bucket in which the share `q` of the starts ends.
    fn bucket_of(&self, q: f64) -> Option<usize> {
        let count = self.count();
        if count == 0 {
            return None;
        }
        #[allow(
            clippy::cast_possible_truncation,
            clippy::cast_precision_loss,
            clippy::cast_sign_loss,
            reason = "a rank between 1 and the count, exact below 2^53"
        )]
        let rank = ((count as f64 * q.clamp(0.0, 1.0)).ceil() as u64).max(1);
        let mut passed = 0_u64;
        self.counts.iter().position(|counted| {
            passed = passed.saturating_add(*counted);
            passed >= rank
        })
    }

    /// Merges the bucket with the fewest starts into the next higher one in use, or the next lower
    /// one. Returns true if there were two to merge.
    pub(super) fn fold_rarest(&mut self) -> bool {
        let mut used = self.counts.iter().copied().enumerate();
        let rarest = used
            .by_ref()
            .filter(|(_, count)| *count > 0)
            .min_by_key(|(_, count)| *count);
        let Some((rarest, count)) = rarest else {
            return false;
        };
        let is_used = |bucket: &usize| self.counts.get(*bucket).is_some_and(|count| *count > 0);
        let higher = (rarest + 1..LATENESS_BUCKETS).find(is_used);
        let Some(other) = higher.or_else(|| (0..rarest).rev().find(is_used)) else {
            return false;
        };
        if let Some(counted) = self.counts.get_mut(rarest) {
            *counted = 0;
        }
        self.add(other, count);
        true
    }
}

impl AddAssign<&Self> for Lateness {
    fn add_assign(&mut self, other: &Self) {
        for (bucket, count) in other.counts.iter().enumerate() {
            self.add(bucket, *count);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_start_is_counted_by_the_power_of_two_above_its_lateness() {
        let mut lateness = Lateness::default();
        for ms in [0, 1, 2, 3, 4, 4_194_303, 4_194_304, u64::MAX] {
            lateness.record(Duration::from_millis(ms));
        }
        let used: Vec<_> = lateness
            .counts()
            .iter()
            .enumerate()
            .filter(|(_, count)| **count > 0)
            .map(|(bucket, count)| (bucket, *count))
            .collect();
        assert_eq!(used, [(0, 1), (1, 1), (2, 2), (3, 1), (22, 1), (23, 2)]);
        assert_eq!(Lateness::end(2), Some(Duration::from_millis(4)));
        assert_eq!(Lateness::end(23), None);
    }

    #[test]
    fn a_quantile_is_the_end_of_its_bucket() {
        let mut lateness = Lateness::default();
        assert_eq!(lateness.quantile(0.5), None);
        lateness.add(1, 98);
        lateness.add(5, 1);
        lateness.add(99, 1);
        let quantile = |q| lateness.quantile(q).unwrap().as_millis();
        assert_eq!(
            [0.0, 0.5, 0.98, 0.99, 1.0].map(quantile),
            [2, 2, 2, 32, 4_194_304]
        );
        assert_eq!(
            [0.5, 0.99, 1.0].map(|q| lateness.is_beyond(q)),
            [false, false, true]
        );
    }
}
