//! What a part of the store gave no answer about is asked again beside the rest, which does not wait for it.

use std::collections::VecDeque;
use std::time::Duration;

use delayq_core::Lock;
use delayq_core::store::{MAX_BATCH, Settlement};

use super::answers::SETTLE;
use super::{DelayBucketHandler, Extended, Settled, next_batch};
use crate::call::{Backoff, Call};
use crate::held::Seq;

/// Settlements and locks whose last call had no answer, and the calls that ask for them again.
#[derive(Debug)]
pub(super) struct Unsure {
    settlements: VecDeque<Settlement>,
    pub(super) locks: Vec<(Seq, Lock)>,
    pub(super) settling: Call<Settled>,
    pub(super) extending: Call<Extended>,
    settle_at: Duration,
    backoff: Backoff,
}

impl Default for Unsure {
    fn default() -> Self {
        Self {
            settlements: VecDeque::new(),
            locks: Vec::new(),
            settling: Call::none(),
            extending: Call::none(),
            settle_at: Duration::ZERO,
            backoff: Backoff::default(),
        }
    }
}

impl Unsure {
    /// When to settle again, if nothing happens.
    pub(super) fn next_wake(&self) -> Option<Duration> {
        let waits = !self.settling.is_under_way() && !self.settlements.is_empty();
        waits.then_some(self.settle_at)
    }

    /// Whether anything of it has no answer yet.
    pub(super) fn is_open(&self) -> bool {
        let is_asked = self.settling.is_under_way() || self.extending.is_under_way();
        is_asked || !self.settlements.is_empty() || !self.locks.is_empty()
    }

    /// Takes in settlements of which nobody knows whether they are applied.
    pub(super) fn add(&mut self, settlements: Vec<Settlement>, now: Duration) {
        if settlements.is_empty() {
            // Nothing has failed.
            return;
        }
        if self.settlements.is_empty() && !self.settling.is_under_way() {
            self.settle_at = now + self.backoff.next();
        }
        self.settlements.extend(settlements);
    }
}

impl DelayBucketHandler {
    /// How many settlements wait for the store, those under way not counted.
    pub(super) fn count_unsettled(&self) -> usize {
        self.unsettled.len() + self.unsure.settlements.len()
    }

    pub(super) fn ask_again(&mut self, now: Duration) {
        if !self.unsure.extending.is_under_way() && !self.unsure.locks.is_empty() {
            let locks = std::mem::take(&mut self.unsure.locks);
            let call = self.extend(locks, now);
            self.unsure.extending.start(call);
        }
        let may_settle = self.unsure.next_wake().is_some_and(|at| at <= now);
        if may_settle {
            let batch = next_batch(&mut self.unsure.settlements, MAX_BATCH);
            let call = self.settle(batch, now);
            self.unsure.settling.start(call);
        }
    }

    /// Settlements were asked for again.
    pub(super) fn on_settled_again(&mut self, (batch, sent_at, outcomes): Settled) {
        let count = batch.len();
        let open = match outcomes {
            Ok(outcomes) => self.take_settled(batch, sent_at, &outcomes),
            Err(error) => {
                self.on_error(SETTLE, error);
                batch
            }
        };
        if open.len() < count {
            self.unsure.backoff.reset();
        }
        if !open.is_empty() {
            self.unsure.settle_at = self.elapsed() + self.unsure.backoff.next();
        }
        let is_told = open.is_empty();
        self.unsure.settlements.extend(open);
        if is_told {
            self.on_success(SETTLE);
        }
    }
}

#[cfg(test)]
mod tests {
    use delayq_core::TaskId;
    use delayq_core::store::AttemptEnd;

    use super::*;

    /// Found in review: each call with an answer to all counted as a failure, so that the next one without waited long.
    #[test]
    fn a_settlement_is_soon_asked_for_again_however_many_were_answered_before() {
        let mut unsure = Unsure::default();
        for _ in 0..100 {
            unsure.add(Vec::new(), Duration::ZERO);
        }
        let id = TaskId::new("a").unwrap();
        let lock = Lock { id, fence: 1 };
        let end = AttemptEnd::Done;
        unsure.add(vec![Settlement { lock, end }], Duration::ZERO);
        let at = unsure.next_wake().unwrap();
        assert!(at <= Duration::from_millis(50), "{at:?}");
    }
}
