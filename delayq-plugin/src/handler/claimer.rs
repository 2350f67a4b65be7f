//! Claims of one handler: when, and for how many tasks.

use std::sync::Arc;
use std::time::Duration;

use delayq_core::Result;
use delayq_core::store::{Bucket, MAX_BATCH};
use tokio::sync::OwnedSemaphorePermit;

use super::Batch;
use super::Wiring;
use super::claim::Claim;
use super::fruitless_wakes::FruitlessWakes;
use crate::backoff::Backoff;
use crate::call::Call;
use crate::poll_grid::PollGrid;
use crate::type_context::TypeContext;

/// The claim of a handler that is under way or comes next.
///
/// A claim reserves slots of its type's concurrency before it is sent, its share of them at most,
/// and those that it does not need go back. After a failed claim the next one is a probe, which
/// takes no task and needs no slot: a silent bucket keeps none from the others.
#[derive(Debug)]
pub(super) struct Claimer {
    context: Arc<TypeContext>,
    bucket: Bucket,
    wiring: Wiring,
    claiming: Call<Result<Batch>>,
    /// Waits until an attempt of the type ends.
    slot: Call<Option<OwnedSemaphorePermit>>,
    next_at: Duration,
    /// Woken while a claim was under way, which may have been too early to see why.
    is_woken: bool,
    /// The claim that is under way was sent for a wake-up.
    is_for_wake_up: bool,
    sent_at: Duration,
    wakes: FruitlessWakes,
    /// When the store expects that a claim finds something.
    due_at: Option<Duration>,
    /// The last question to the handler before the claim was sent.
    question: u64,
    is_probe: bool,
    backoff: Backoff,
}

/// What a [`Claimer`] waited for.
#[derive(Debug)]
pub(super) enum ClaimEvent {
    Answered(Result<Batch>),
    /// A slot became free.
    Slot(Option<OwnedSemaphorePermit>),
}

impl Claimer {
    pub(super) fn new(bucket: Bucket, context: Arc<TypeContext>, wiring: Wiring) -> Self {
        Self {
            context,
            bucket,
            wiring,
            claiming: Call::none(),
            slot: Call::none(),
            next_at: Duration::ZERO,
            is_woken: false,
            is_for_wake_up: false,
            sent_at: Duration::ZERO,
            wakes: FruitlessWakes::default(),
            due_at: None,
            question: 0,
            is_probe: false,
            backoff: Backoff::default(),
        }
    }

    pub(super) fn is_under_way(&self) -> bool {
        self.claiming.is_under_way()
    }

    /// When to claim, unless a claim is under way or waits for a slot.
    pub(super) fn next_wake(&self) -> Option<Duration> {
        let is_waiting = self.claiming.is_under_way() || self.slot.is_under_way();
        let is_asked = self.question < self.wiring.idleness.question();
        let next_at = if is_asked {
            Duration::ZERO
        } else {
            self.next_at
        };
        (!is_waiting).then_some(next_at)
    }

    /// The last question to the handler that a claim has answered, unless one is under way.
    pub(super) fn answers(&self) -> u64 {
        self.question
    }

    /// When a claim may find something, or is tried again after a failure.
    pub(super) fn expects_at(&self) -> Option<Duration> {
        if self.is_probe {
            return Some(self.next_at);
        }
        self.due_at
    }

    /// Claims as soon as possible, unless wake-ups come in a flood.
    pub(super) fn wake(&mut self, now: Duration) {
        self.is_woken = true;
        self.claim_by(self.wakes.next_after(self.sent_at).max(now));
    }

    /// Claims at `at` or earlier.
    pub(super) fn claim_by(&mut self, at: Duration) {
        self.next_at = self.next_at.min(at);
    }

    /// Takes no slot any more.
    pub(super) fn stop(&mut self) {
        self.slot.cancel();
    }

    /// Starts a claim, or waits for a slot when all are taken.
    pub(super) fn start(&mut self) {
        if self.is_probe {
            return self.send(None);
        }
        if let Some(reserved) = self.reserve(self.context.share().min(MAX_BATCH)) {
            return self.send(Some(reserved));
        }
        let slots = Arc::clone(&self.context.slots);
        self.slot
            .start(async move { slots.acquire_owned().await.ok() });
    }

    /// Starts a claim with a slot that became free, and with more of them if there are.
    pub(super) fn start_with(&mut self, mut slot: OwnedSemaphorePermit) {
        let more = self.context.share().min(MAX_BATCH).saturating_sub(1);
        if let Some(more) = self.reserve(more) {
            slot.merge(more);
        }
        self.send(Some(slot));
    }

    /// Plans the next claim after one that was answered.
    pub(super) fn answered(&mut self, batch: &Batch, now: Duration) {
        self.is_probe = false;
        self.backoff.reset();
        let poll_at = PollGrid::new(self.context.poll).next(batch.sent_at);
        // From when it was sent: a claim sent so much later arrives so much later.
        let due_at = batch
            .next_in
            .map(|next_in| batch.sent_at.saturating_add(next_in));
        self.wakes
            .count(self.is_for_wake_up, batch.is_fruitful(), due_at);
        self.due_at = due_at;
        self.next_at = due_at.map_or(poll_at, |due_at| due_at.min(poll_at));
        if self.is_woken {
            self.wake(now);
        }
    }

    /// Plans a probe after a claim that failed.
    pub(super) fn failed(&mut self, now: Duration) {
        self.is_probe = true;
        self.next_at = now + self.backoff.next();
    }

    pub(super) async fn event(&mut self) -> ClaimEvent {
        tokio::select! {
            answer = self.claiming.answer() => ClaimEvent::Answered(answer),
            slot = self.slot.answer() => ClaimEvent::Slot(slot),
        }
    }

    /// Up to `most` slots, if any is free.
    fn reserve(&self, most: usize) -> Option<OwnedSemaphorePermit> {
        let slots = &self.context.slots;
        let count = most.min(slots.available_permits());
        let count = u32::try_from(count).ok().filter(|count| *count > 0)?;
        let all = Arc::clone(slots).try_acquire_many_owned(count);
        // The handlers of a type share a thread; only a worker that ends can change the number.
        all.or_else(|_| Arc::clone(slots).try_acquire_owned()).ok()
    }

    fn send(&mut self, slots: Option<OwnedSemaphorePermit>) {
        self.is_for_wake_up = std::mem::take(&mut self.is_woken);
        self.sent_at = self.context.clock.elapsed();
        self.question = self.wiring.idleness.question();
        let claim = Claim {
            context: Arc::clone(&self.context),
            bucket: self.bucket.clone(),
            wiring: self.wiring.clone(),
            slots,
        };
        self.claiming.start(claim.run());
    }
}
