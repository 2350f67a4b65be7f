//! The number of starts that a rate allows now, by the generic cell rate algorithm.
//!
//! See ITU-T Recommendation I.371, virtual scheduling. Besides the rate there is one number, the
//! theoretical arrival time (`tat`) of the next start. A start moves it on by one interval,
//! `per / starts`, from `tat` or from now, whichever is later. A start conforms if the result is at
//! most `burst` intervals ahead of now. `lua/limit.lua` is the same for Redis.

use std::time::Duration;

use crate::fleet::Rate;
use crate::store::MAX_BATCH;
use crate::time::{Reading, Timestamp};

/// If a claim finds no start left, it is repeated once there are as many as the rate allows in this
/// time (or half the burst, if that is less). Otherwise each instance would claim for every single
/// start.
const GATHER: Duration = Duration::from_millis(50);

/// The allowed starts of a type at one moment. Times are microseconds since the epoch.
#[derive(Clone, Copy, Debug)]
pub struct RateLimiter {
    starts: i128,
    per: i128,
    burst: i128,
    now: i128,
    tat: i128,
}

impl RateLimiter {
    /// `tat` is the state left by the last claim, 0 at first. A `tat` that is further ahead than
    /// any claim leaves it is from another rate, or the clock was set back: then the burst counts
    /// as just used up. The resulting state has to be stored, or each claim would count it as used
    /// up again, and no start would ever become free.
    #[must_use]
    pub fn new(rate: Rate, tat: i64, reading: Reading) -> Self {
        let rate = rate.clamped();
        let (starts, burst) = (i128::from(rate.starts), i128::from(rate.burst));
        let per = i128::try_from(rate.per.as_micros()).unwrap_or(i128::MAX);
        let part = i128::from(reading.sub_ms.subsec_micros());
        let now = i128::from(reading.now.as_millis()) * 1_000 + part;
        let furthest = now + div_ceil(burst * per, starts);
        Self {
            starts,
            per,
            burst,
            now,
            tat: i128::from(tat).clamp(now, furthest),
        }
    }

    /// The number of starts that conform now; at most [`MAX_BATCH`].
    #[must_use]
    pub fn allowed(&self) -> usize {
        let free = self.burst * self.per - (self.tat - self.now) * self.starts;
        let free = usize::try_from(free / self.per).unwrap_or(0);
        free.min(MAX_BATCH)
    }

    /// Counts starts.
    pub fn take(&mut self, starts: usize) {
        let starts = i128::try_from(starts).unwrap_or(0);
        self.tat += div_ceil(starts * self.per, self.starts);
    }

    /// The state to keep for the next claim.
    #[must_use]
    pub fn tat(&self) -> i64 {
        i64::try_from(self.tat).unwrap_or(i64::MAX)
    }

    /// The time of the next claim, if no start is left.
    #[must_use]
    pub fn again_at(&self) -> Option<Timestamp> {
        if self.allowed() > 0 {
            return None;
        }
        let gather = i128::try_from(GATHER.as_micros()).unwrap_or(0);
        let wanted = (self.starts * gather / self.per).min(self.burst / 2).max(1);
        let at = self.tat - (self.burst - wanted) * self.per / self.starts;
        let ms = i64::try_from(div_ceil(at, 1_000)).unwrap_or(i64::MAX);
        Some(Timestamp::from_millis(ms))
    }
}

/// Division rounded up, for numbers that are not negative.
fn div_ceil(dividend: i128, divisor: i128) -> i128 {
    (dividend + divisor - 1) / divisor
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn at(micros: i64) -> Reading {
        Reading {
            now: Timestamp::from_millis(micros / 1_000),
            sub_ms: Duration::from_micros(micros.rem_euclid(1_000).unsigned_abs()),
        }
    }

    #[test]
    fn a_burst_comes_at_once_and_then_one_each_interval() {
        let rate = Rate::per_second(10).with_burst(3);
        let start = 1_000_000_000;
        let mut pace = RateLimiter::new(rate, 0, at(start));
        assert_eq!(pace.allowed(), 3);
        pace.take(3);
        assert_eq!(pace.allowed(), 0);
        assert_eq!(pace.again_at(), Some(Timestamp::from_millis(1_000_100)));
        assert_eq!(
            RateLimiter::new(rate, pace.tat(), at(start + 99_999)).allowed(),
            0
        );
        let next = RateLimiter::new(rate, pace.tat(), at(start + 100_000));
        assert_eq!((next.allowed(), next.again_at()), (1, None));
        assert_eq!(
            RateLimiter::new(rate, pace.tat(), at(start + 299_999)).allowed(),
            2
        );
        assert_eq!(
            RateLimiter::new(rate, pace.tat(), at(start + 9_000_000)).allowed(),
            3
        );
    }

    #[test]
    fn a_claim_is_told_to_come_again_when_some_starts_have_gathered() {
        let mut pace = RateLimiter::new(Rate::per_second(1_000), 0, at(0));
        assert_eq!(pace.allowed(), 100);
        pace.take(100);
        assert_eq!(pace.again_at(), Some(Timestamp::from_millis(50)));
        assert_eq!(
            RateLimiter::new(Rate::per_second(1_000), pace.tat(), at(50_000)).allowed(),
            50
        );
        // A large burst of a slow rate makes nobody wait.
        let mut slow = RateLimiter::new(Rate::per_minute(10).with_burst(10), 0, at(0));
        slow.take(10);
        assert_eq!(slow.again_at(), Some(Timestamp::from_millis(6_000)));
    }

    #[test]
    fn a_clock_that_was_set_back_and_a_slower_rate_before_hold_nothing_for_longer_than_a_burst() {
        let rate = Rate::per_second(10).with_burst(5);
        let pace = RateLimiter::new(rate, i64::MAX, at(0));
        assert_eq!(pace.allowed(), 0);
        assert_eq!(pace.again_at(), Some(Timestamp::from_millis(100)));
    }

    proptest! {
        #[test]
        fn in_no_time_are_there_more_starts_than_the_rate_and_the_burst_allow(
            starts in 1..5_000_u32, per_ms in 1..100_000_u64, burst in 1..300_u32,
            steps in prop::collection::vec((0..2_000_000_i64, 0..200_usize), 1..60),
        ) {
            let rate = Rate::new(starts, Duration::from_millis(per_ms)).with_burst(burst);
            let (mut now, mut tat, mut taken) = (1_700_000_000_000_000, 0, Vec::new());
            for (pause, wanted) in steps {
                now += pause;
                let mut pace = RateLimiter::new(rate, tat, at(now));
                let count = pace.allowed().min(wanted);
                pace.take(count);
                tat = pace.tat();
                taken.push((now, i128::try_from(count).unwrap()));
            }
            for (first, (from, _)) in taken.iter().enumerate() {
                let mut sum = 0;
                for (to, count) in &taken[first..] {
                    sum += count;
                    let span = i128::from(to - from);
                    let per = i128::from(per_ms) * 1_000;
                    prop_assert!(sum * per <= i128::from(burst) * per + span * i128::from(starts));
                }
            }
        }

        #[test]
        fn whoever_comes_when_told_gets_a_start_and_the_rate_is_used(
            starts in 1..5_000_u32, per_ms in 1..100_000_u64, burst in 1..300_u32,
        ) {
            let rate = Rate::new(starts, Duration::from_millis(per_ms)).with_burst(burst);
            let (begin, mut tat, mut sum) = (1_700_000_000_000_000_i64, 0, 0_i128);
            let mut now = begin;
            for _ in 0..500 {
                let mut pace = RateLimiter::new(rate, tat, at(now));
                let count = pace.allowed();
                prop_assert!(count > 0, "told to come too early");
                pace.take(count);
                tat = pace.tat();
                sum += i128::try_from(count).unwrap();
                if let Some(again) = pace.again_at() {
                    let again = again.as_millis() * 1_000;
                    prop_assert!(again > now, "told to spin");
                    now = again;
                }
            }
            // Up to a millisecond is lost to rounding each time, which is little compared with the
            // interval.
            let interval = i128::from(per_ms) * 1_000 / i128::from(starts);
            prop_assume!(interval >= 20_000 && now > begin);
            let possible = i128::from(now - begin) * i128::from(starts) / (i128::from(per_ms) * 1_000);
            prop_assert!(sum * 100 >= possible * 94, "{sum} of {possible}");
        }
    }
}
