//! One type that clients wait for: its buckets, and the waiters in the order of their arrival.

use std::collections::VecDeque;
use std::time::Duration;

use delayq_plugin::Result;
use delayq_plugin::store::Bucket;

/// Number of a waiter.
pub(super) type WaiterId = u64;

/// A bucket, as the claimer sees it.
#[derive(Debug)]
pub(super) struct BucketLine {
    pub(super) bucket: Bucket,
    pub(super) phase: Phase,
    /// Why the last claim failed, if it did.
    pub(super) error: Option<delayq_plugin::Error>,
}

/// What a bucket is waiting for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// A claim may find something: it waits for somebody who wants it.
    Ready,
    /// A claim is under way; `is_woken`: it may have been too early for something.
    Claiming { is_woken: bool },
    /// Nothing can be found before this reading of the clock.
    Quiet(Duration),
}

/// The line of a type.
#[derive(Debug, Default)]
pub(super) struct TypeLine {
    pub(super) buckets: Vec<BucketLine>,
    pub(super) waiters: VecDeque<WaiterId>,
    /// The list of buckets is being read.
    pub(super) is_listing: bool,
    /// When it was read last.
    pub(super) listed_at: Duration,
    /// When somebody waited last.
    pub(super) used_at: Duration,
}

impl TypeLine {
    /// The bucket of this name.
    pub(super) fn bucket(&mut self, bucket: &Bucket) -> Option<&mut BucketLine> {
        self.buckets.iter_mut().find(|one| one.bucket == *bucket)
    }

    /// Takes over the list of buckets that the store gave.
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
                });
            }
        }
    }

    /// A claim may find something in all buckets, or in one.
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

    /// Whether nothing can be found in any bucket now.
    pub(super) fn is_quiet(&self) -> bool {
        let is_quiet = |one: &BucketLine| matches!(one.phase, Phase::Quiet(_));
        let is_unknown = self.is_listing && self.buckets.is_empty();
        !is_unknown && self.buckets.iter().all(is_quiet)
    }

    /// Why the last claim of a bucket failed, if one did.
    pub(super) fn error(&self) -> Option<&delayq_plugin::Error> {
        self.buckets.iter().find_map(|one| one.error.as_ref())
    }
}
