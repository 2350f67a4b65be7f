//! Claims of one handler: their times and sizes.

use std::sync::Arc;
use std::time::Duration;

use delayq_core::Result;
use delayq_core::store::{Bucket, MAX_BATCH};

use super::Batch;
use super::Wiring;
use super::claim::Claim;
use super::fruitless_wakes::FruitlessWakes;
use crate::backoff::Backoff;
use crate::call::OneCall;
use crate::poll_grid::PollGrid;
use crate::slots::{Place, Reserved};
use crate::type_context::TypeContext;

/// The present or next claim of a handler.
///
/// Before a claim is sent, it reserves slots, at most its share of its type's concurrency; unused
/// ones are returned. While due tasks are left, the handler stays in the queue for slots during a
/// claim, so that its turn does not depend on how fast the store answers. After a failed claim the
/// next one is a probe, which takes no task and needs no slot, so that a bucket without answers
/// blocks no slots.
#[derive(Debug)]
pub(super) struct Claimer {
    context: Arc<TypeContext>,
    bucket: Bucket,
    wiring: Wiring,
    claiming: OneCall<Result<Batch>>,
    place: Place,
    /// The wait for a slot.
    slot: OneCall<()>,
    purpose: ClaimPurpose,
    next_at: Duration,
    /// Woken during a claim that may have been too early to see the reason.
    is_woken: bool,
    /// The present claim was sent because of a wake-up.
    is_for_wake_up: bool,
    sent_at: Duration,
    wakes: FruitlessWakes,
    /// The time when the store expects that a claim will find something.
    due_at: Option<Duration>,
    /// The last question to the handler (see `IdlenessReport`) before the claim was sent.
    question: u64,
    backoff: Backoff,
}

/// The purpose of the next claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ClaimPurpose {
    /// Find out if anything is due.
    Look,
    /// Take the due tasks that the last claim left.
    Rest,
    /// Find out if the store answers again after a failure. A probe takes no task.
    Probe,
}

/// An event that a [`Claimer`] waits for.
#[derive(Debug)]
pub(super) enum ClaimEvent {
    Answered(Result<Batch>),
    /// A slot is free.
    Slot,
}

impl Claimer {
    pub(super) fn new(bucket: Bucket, context: Arc<TypeContext>, wiring: Wiring) -> Self {
        Self {
            place: context.slots.place(),
            purpose: ClaimPurpose::Look,
            context,
            bucket,
            wiring,
            claiming: OneCall::none(),
            slot: OneCall::none(),
            next_at: Duration::ZERO,
            is_woken: false,
            is_for_wake_up: false,
            sent_at: Duration::ZERO,
            wakes: FruitlessWakes::default(),
            due_at: None,
            question: 0,
            backoff: Backoff::default(),
        }
    }

    pub(super) fn is_under_way(&self) -> bool {
        self.claiming.is_under_way()
    }

    /// The time of the next claim, unless a claim is in progress or waits for a slot.
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

    /// The last question to the handler that a claim has answered, unless one is in progress.
    pub(super) fn answers(&self) -> u64 {
        self.question
    }

    /// The time when a claim may find something, or when it is retried after a failure.
    pub(super) fn expects_at(&self) -> Option<Duration> {
        if self.purpose == ClaimPurpose::Probe {
            return Some(self.next_at);
        }
        self.due_at
    }

    /// Claims as soon as possible, but spaced out during a flood of wake-ups.
    pub(super) fn wake(&mut self, now: Duration) {
        self.is_woken = true;
        self.claim_by(self.wakes.next_after(self.sent_at).max(now));
    }

    /// Claims at `at` or earlier.
    pub(super) fn claim_by(&mut self, at: Duration) {
        self.next_at = self.next_at.min(at);
    }

    /// Gives up waiting for slots.
    pub(super) fn stop(&mut self) {
        self.slot.cancel();
        self.place.withdraw();
    }

    /// Starts a claim, or waits for a slot if all are taken.
    pub(super) fn start(&mut self) {
        if self.purpose == ClaimPurpose::Probe {
            return self.send(None);
        }
        let most = self.context.share().min(MAX_BATCH);
        self.place.ask(most, self.purpose == ClaimPurpose::Rest);
        self.start_with_given();
    }

    /// Starts a claim with the slots available now, or waits for one.
    pub(super) fn start_with_given(&mut self) {
        match self.place.take() {
            Some(reserved) => self.send(Some(reserved)),
            None => self.slot.start(self.place.given()),
        }
    }

    /// Plans the next claim after an answer.
    pub(super) fn answered(&mut self, batch: &Batch, now: Duration) {
        self.backoff.reset();
        let poll_at = PollGrid::new(self.context.poll).next(batch.sent_at);
        // Counted from the sending: a claim sent that much later arrives that much later.
        let due_at = batch
            .next_in
            .map(|next_in| batch.sent_at.saturating_add(next_in));
        self.wakes
            .count(self.is_for_wake_up, batch.is_fruitful(), due_at);
        self.due_at = due_at;
        self.purpose = match batch.next_in {
            Some(Duration::ZERO) => ClaimPurpose::Rest,
            _ => ClaimPurpose::Look,
        };
        if self.purpose == ClaimPurpose::Look {
            self.place.withdraw();
        }
        self.next_at = due_at.map_or(poll_at, |due_at| due_at.min(poll_at));
        if self.is_woken {
            self.wake(now);
        }
    }

    /// Plans a probe after a failed claim.
    pub(super) fn failed(&mut self, now: Duration) {
        self.purpose = ClaimPurpose::Probe;
        self.place.withdraw();
        self.next_at = now + self.backoff.next();
    }

    pub(super) async fn event(&mut self) -> ClaimEvent {
        tokio::select! {
            answer = self.claiming.answer() => ClaimEvent::Answered(answer),
            () = self.slot.answer() => ClaimEvent::Slot,
        }
    }

    /// Asks for the slots of the next claim during this one, if due tasks were left.
    fn ask_ahead(&mut self, reserved: usize) {
        match self.context.share().saturating_sub(reserved).min(MAX_BATCH) {
            most if most > 0 && self.purpose == ClaimPurpose::Rest => self.place.ask(most, true),
            _ => self.place.withdraw(),
        }
    }

    fn send(&mut self, slots: Option<Reserved>) {
        self.ask_ahead(slots.as_ref().map_or(0, Reserved::count));
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
