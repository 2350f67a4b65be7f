//! The line of one type: its buckets, and its waiters in order of arrival.

use std::collections::VecDeque;
use std::time::Duration;

use delayq_plugin::Result;
use delayq_plugin::store::Bucket;

/// The number of a waiter.
pub(super) type WaiterId = u64;

/// A bucket and its state in the claimer.
#[derive(Debug)]
pub(super) struct BucketLine {
    pub(super) bucket: Bucket,
    pub(super) phase: Phase,
    /// The error of the last claim, if it failed.
    pub(super) error: Option<delayq_plugin::Error>,
    /// The largest fence that the store has issued here.
    pub(super) last_fence: u64,
}

/// The state of a bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// A claim may find something; the bucket waits for a client.
    Ready,
    /// A claim is under way. `is_woken` means that a wake-up came meanwhile, so the claim may have
    /// been too early.
    Claiming { is_woken: bool },
    /// A claim finds nothing before this reading of the clock.
    Quiet(Duration),
}

/// The line of a type.
#[derive(Debug, Default)]
pub(super) struct TypeLine {
    pub(super) buckets: Vec<BucketLine>,
    pub(super) waiters: VecDeque<WaiterId>,
    /// True while the list of buckets is being read.
    pub(super) is_listing: bool,
    /// The time when the list was last read.
    pub(super) listed_at: Duration,
    /// The time when a client last waited.
    pub(super) used_at: Duration,
}

impl TypeLine {
    /// The entry of a bucket.
    pub(super) fn bucket(&mut self, bucket: &Bucket) -> Option<&mut BucketLine> {
        self.buckets.iter_mut().find(|one| one.bucket == *bucket)
    }

    /// Applies the list of buckets from the store.
    pub(super) fn list(&mut self, listed: Result<Vec<Bucket>>, now: Duration) {
        self.is_listing = false;
        self.listed_at = now;
        let listed = match listed {
            Ok(listed) => listed,
            Err(error) => {
                if let Some(first) = self.buckets.first_mut() {
                    first.error = Some(error);
                }
                return;
            }
        };
        let is_claiming = |one: &BucketLine| matches!(one.phase, Phase::Claiming { .. });
        self.buckets
            .retain(|one| is_claiming(one) || listed.contains(&one.bucket));
        for bucket in listed {
            if self.bucket(&bucket).is_none() {
                self.buckets.push(BucketLine {
                    bucket,
                    phase: Phase::Ready,
                    error: None,
                    last_fence: 0,
                });
            }
        }
    }

    /// Marks all buckets, or one, as ready for a claim.
    pub(super) fn wake(&mut self, only: Option<&Bucket>) {
        for one in &mut self.buckets {
            if only.is_none_or(|only| one.bucket == *only) {
                one.phase = match one.phase {
                    Phase::Claiming { .. } => Phase::Claiming { is_woken: true },
                    Phase::Ready | Phase::Quiet(_) => Phase::Ready,
                };
            }
        }
    }

    /// Returns true if no bucket can yield a task now.
    pub(super) fn is_quiet(&self) -> bool {
        let is_quiet = |one: &BucketLine| matches!(one.phase, Phase::Quiet(_));
        let is_unknown = self.is_listing && self.buckets.is_empty();
        !is_unknown && self.buckets.iter().all(is_quiet)
    }

    /// The error of the last claim of a bucket, if one failed.
    pub(super) fn error(&self) -> Option<&delayq_plugin::Error> {
        self.buckets.iter().find_map(|one| one.error.as_ref())
    }
}
