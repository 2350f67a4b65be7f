//! One claim from each bucket of a type, combined into one answer.

use delayq_core::store::{ClaimEnd, Claimed};
use delayq_core::{Bucket, ClaimedTask, TaskId, Timestamp};

/// One claim from each bucket of a type, in the order of the buckets. Order is only guaranteed
/// within a bucket.
#[derive(Clone, Debug)]
pub(super) struct Round {
    /// The answer of each bucket.
    pub(super) parts: Vec<(Bucket, Claimed)>,
    /// The tasks of all buckets.
    pub(super) tasks: Vec<ClaimedTask>,
    /// The ended tasks of all buckets.
    pub(super) ended: Vec<ClaimEnd>,
}

impl Round {
    pub(super) fn new(parts: Vec<(Bucket, Claimed)>) -> Self {
        let claims = || parts.iter().map(|(_, claimed)| claimed);
        Self {
            tasks: claims().flat_map(|claimed| claimed.tasks.clone()).collect(),
            ended: claims().flat_map(|claimed| claimed.ended.clone()).collect(),
            parts,
        }
    }

    /// The answer of the first bucket that returned something, or of the last one if none did.
    fn main(&self) -> &Claimed {
        let (_, last) = self.parts.last().unwrap();
        let mut claims = self.parts.iter().map(|(_, claimed)| claimed);
        claims.find(|claimed| claimed.taken() > 0).unwrap_or(last)
    }

    /// The time that due times were compared with.
    pub(super) fn now(&self) -> Timestamp {
        self.main().now
    }

    /// The clock that locks are measured on.
    pub(super) fn store_now(&self) -> Timestamp {
        self.main().store_now
    }

    /// The time of the next claim, by the store's clock; for tasks already due it is the claim's
    /// present time.
    pub(super) fn next_at(&self) -> Option<Timestamp> {
        // The wait counts from a fraction of a millisecond after `now`: rounding up gives whole
        // milliseconds.
        let next = |claimed: &Claimed| Some(claimed.now.plus(claimed.next_in?));
        self.parts
            .iter()
            .filter_map(|(_, claimed)| next(claimed))
            .min()
    }

    /// True if there is more to claim at once.
    pub(super) fn is_more_due(&self) -> bool {
        let mut spans = self.parts.iter().map(|(_, claimed)| claimed.next_in);
        spans.any(|span| span.is_some_and(|span| span.is_zero()))
    }

    /// The ids of the tasks, sorted.
    pub(super) fn ids(&self) -> Vec<&str> {
        let mut ids: Vec<&str> = self
            .tasks
            .iter()
            .map(|task| task.lock.id.as_str())
            .collect();
        ids.sort_unstable();
        ids
    }

    /// Asserts the claimed tasks, and that each bucket returned its own in this order.
    pub(super) fn assert_order(&self, expected: &[&str]) {
        let mut sorted = expected.to_vec();
        sorted.sort_unstable();
        assert_eq!(self.ids(), sorted);
        for (bucket, claimed) in &self.parts {
            let ids = claimed.tasks.iter().map(|task| &task.lock.id);
            let ids: Vec<&str> = ids.map(TaskId::as_str).collect();
            let mut own = expected.to_vec();
            own.retain(|id| ids.contains(id));
            assert_eq!(ids, own, "order of {bucket}");
        }
    }
}
