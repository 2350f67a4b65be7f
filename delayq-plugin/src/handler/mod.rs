//! Handler of one bucket: claims, starts workers, collects results, settles, and sleeps until the
//! next event.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use delayq_core::machine::loss;
use delayq_core::store::{AttemptEnd, Bucket, BucketState, SettleOutcome};
use tokio::sync::watch;
use tracing::{debug, error, warn};

mod attempts;
mod batch;
mod claim;
mod claimer;
mod committed;
mod conclusion;
mod early_settlement;
mod extender;
mod fruitless_wakes;
mod idleness;
mod notes;
mod settler;
mod wiring;

pub(crate) use idleness::{Idleness, IdlenessReport};
pub(crate) use wiring::{Notice, Phase, Wiring};

use self::attempts::{Attempts, Finished, NewAttempt};
use self::batch::Batch;
use self::claimer::{ClaimEvent, Claimer};
use self::extender::{Extended, Extender};
use self::settler::{Settled, Settler};
use crate::call::OneCall;
use crate::ending::Ending;
use crate::report::Failure;
use crate::slots::Reserved;
use crate::type_context::TypeContext;

/// The names of the calls in the log.
const CLAIM: &str = "claim";
const SETTLE: &str = "settle";
const EXTEND: &str = "extend";

/// Time for workers to react to `cancelled()` once the grace time of a shutdown is over.
const STOP_NOTICE: Duration = Duration::from_millis(500);
/// How long a stopping handler tries to settle the remaining attempts.
const LAST_SETTLE: Duration = Duration::from_secs(5);
/// The wait before a failed extension is tried again: the rest of the lock allows many tries.
const EXTEND_RETRY: Duration = Duration::from_millis(200);

/// The handler of one bucket, on a scheduler thread. A type has one bucket; a sharded type has one
/// bucket for each shard, and their handlers share a thread and the type's concurrency.
///
/// The handler claims due tasks under a lock, starts their workers, settles the results in batches
/// and keeps the locks extended meanwhile. It sleeps until the next due time, the next lock to
/// extend, or the poll interval, whichever is first, or until woken. It survives any error of the
/// store: it backs off, tries again, and reports the error in its health. It ends with a shutdown,
/// or when its bucket has drained after a resize.
#[derive(Debug)]
pub struct DelayBucketHandler {
    bucket: Bucket,
    context: Arc<TypeContext>,
    wiring: Wiring,
    attempts: Attempts,
    claimer: Claimer,
    settler: Settler,
    extender: Extender,
    /// The largest fence of the bucket seen by this handler.
    last_fence: u64,
    timer: OneCall<()>,
    timer_at: Duration,
    /// The last extension failed.
    is_extension_failing: bool,
    /// The number of handlers of the type when the bucket was reported as sealed.
    sealed_among: Option<usize>,
    is_drained: bool,
    /// An attempt of this process runs alone or waits for that.
    is_closed: watch::Receiver<bool>,
    fruitful_claims: u64,
}

#[derive(Debug)]
enum LoopEvent {
    Settled(Settled),
    Extended(Extended),
    Claim(ClaimEvent),
    Finished(Finished),
    Woken,
    Timer,
}

impl DelayBucketHandler {
    pub(crate) fn new(bucket: Bucket, context: Arc<TypeContext>, wiring: Wiring) -> Self {
        let shared = || Arc::clone(&context);
        Self {
            attempts: Attempts::new(bucket.clone(), shared(), wiring.status.clone()),
            claimer: Claimer::new(bucket.clone(), shared(), wiring.clone()),
            settler: Settler::new(bucket.clone(), shared()),
            extender: Extender::new(bucket.clone(), shared()),
            last_fence: 0,
            timer: OneCall::none(),
            timer_at: Duration::ZERO,
            is_extension_failing: false,
            sealed_among: None,
            is_drained: false,
            is_closed: context.company.is_closed(),
            fruitful_claims: 0,
            bucket,
            context,
            wiring,
        }
    }

    /// Runs until a shutdown is complete, or the bucket has drained.
    pub(crate) async fn run(mut self) {
        debug!(bucket = %self.bucket, workers = ?self.context.workers().names(), "handler started");
        loop {
            let now = self.elapsed();
            // Finished workers first, so that none of them counts as over its time limit.
            while let Some(finished) = self.attempts.try_next_finished() {
                self.settler.extend(self.attempts.finish(finished, now));
            }
            self.do_what_is_due(now);
            if self.is_finished(now) {
                break;
            }
            self.wiring.idleness.tell(|| self.idleness());
            let event = self.next_event(now).await;
            self.apply(event);
        }
        match self.settler.len() {
            0 => debug!(bucket = %self.bucket, "handler stopped"),
            unsettled => warn!(bucket = %self.bucket, unsettled,
                "handler stopped; these locks expire by themselves"),
        }
        if self.is_drained {
            self.wiring.notify(Notice::Drained(self.bucket));
        }
    }

    fn elapsed(&self) -> Duration {
        self.context.clock.elapsed()
    }

    fn do_what_is_due(&mut self, now: Duration) {
        if self.is_extension_failing && !self.attempts.awaits_extension() {
            self.extension_answered();
        }
        let due = self.attempts.take_due(now);
        self.extender.extend(due.extend);
        self.settler.extend(due.settle);
        self.stop_what_is_due(now);
        self.extender.start_due(now);
        self.settler.start_due(now);
        if !self.may_claim() {
            self.claimer.stop();
        } else if self.claimer.next_wake().is_some_and(|at| at <= now) {
            self.claimer.start();
        }
    }

    /// During a shutdown: tells the workers to stop at the end of the grace time, and gives the
    /// rest back soon after.
    fn stop_what_is_due(&mut self, now: Duration) {
        let Some(stop_at) = self.wiring.stop_at().filter(|at| *at <= now) else {
            return;
        };
        self.attempts.tell_to_stop();
        if stop_at.saturating_add(STOP_NOTICE) <= now {
            self.settler.extend(self.attempts.give_back_all(now));
        }
    }

    fn is_finished(&self, now: Duration) -> bool {
        let is_settled = self.settler.is_idle() && !self.claimer.is_under_way();
        let Some(stop_at) = self.wiring.stop_at() else {
            return self.is_drained && self.attempts.is_empty() && is_settled;
        };
        let stopped = stop_at.saturating_add(STOP_NOTICE);
        let are_workers_gone = self.attempts.is_empty() || stopped <= now;
        are_workers_gone && (is_settled || stopped.saturating_add(LAST_SETTLE) <= now)
    }

    fn idleness(&self) -> Idleness {
        let calls = self.claimer.is_under_way() || self.settler.is_under_way();
        let plans = [self.claimer.expects_at(), self.settler.next_wake()];
        Idleness {
            answers: self.claimer.answers(),
            is_idle: !calls && self.attempts.is_empty(),
            fruitful_claims: self.fruitful_claims,
            next_at: plans.into_iter().flatten().min(),
        }
    }

    fn may_claim(&self) -> bool {
        let is_open = !self.is_drained && !*self.is_closed.borrow();
        is_open && !self.settler.is_full() && self.wiring.stop_at().is_none()
    }

    /// When to continue if no event comes.
    fn next_wake(&self, now: Duration) -> Option<Duration> {
        let claim = self.claimer.next_wake().filter(|_| self.may_claim());
        let stop = self.wiring.stop_at().map(|at| {
            let ends = [at, at.saturating_add(STOP_NOTICE)];
            let last = at.saturating_add(STOP_NOTICE + LAST_SETTLE);
            ends.into_iter().find(|end| now < *end).unwrap_or(last)
        });
        let (settle, lease) = (self.settler.next_wake(), self.attempts.next_timer());
        [claim, settle, stop, lease].into_iter().flatten().min()
    }

    async fn next_event(&mut self, now: Duration) -> LoopEvent {
        let poll_at = now.saturating_add(self.context.poll);
        let wake_at = self.next_wake(now).unwrap_or(poll_at);
        if !self.timer.is_under_way() || self.timer_at != wake_at {
            self.timer_at = wake_at;
            self.timer.start(self.context.clock.sleep_until(wake_at));
        }
        tokio::select! {
            // The order in which calls are sent. A claim must not take over a lock that has just
            // expired while the settlement or extension that would have saved it still waits.
            biased;
            settled = self.settler.answer() => settled.map_or(LoopEvent::Timer, LoopEvent::Settled),
            extended = self.extender.answer() => LoopEvent::Extended(extended),
            claim = self.claimer.event() => LoopEvent::Claim(claim),
            Some(finished) = self.attempts.next_finished() => LoopEvent::Finished(finished),
            () = self.wiring.wake.notified() => LoopEvent::Woken,
            () = self.timer.answer() => LoopEvent::Timer,
            () = self.wiring.idleness.asked() => LoopEvent::Timer,
            // An error means that the plugin is gone without a shutdown. The timer still runs.
            Ok(()) = self.is_closed.changed() => LoopEvent::Timer,
            Ok(()) = self.wiring.phase.changed() => LoopEvent::Timer,
            Ok(()) = self.wiring.type_phase.changed() => LoopEvent::Timer,
        }
    }

    fn apply(&mut self, event: LoopEvent) {
        match event {
            LoopEvent::Settled(settled) => self.on_settled(settled),
            LoopEvent::Extended(extended) => self.on_extended(extended),
            LoopEvent::Claim(ClaimEvent::Answered(Ok(batch))) => self.on_batch(batch),
            LoopEvent::Claim(ClaimEvent::Answered(Err(error))) => {
                self.claimer.failed(self.elapsed());
                self.wiring.status.failed(CLAIM, error);
            }
            LoopEvent::Claim(ClaimEvent::Slot) if self.may_claim() => {
                self.claimer.start_with_given();
            }
            LoopEvent::Claim(ClaimEvent::Slot) => self.claimer.stop(),
            LoopEvent::Finished(finished) => {
                let now = self.elapsed();
                self.settler.extend(self.attempts.finish(finished, now));
            }
            LoopEvent::Woken => {
                self.context.report.woken();
                self.claimer.wake(self.elapsed());
            }
            LoopEvent::Timer => {}
        }
    }

    fn on_batch(&mut self, mut batch: Batch) {
        let now = self.elapsed();
        self.wiring.status.answered(CLAIM);
        self.wiring.status.claimed(batch.sent_at);
        self.wiring.skew_log.observe(batch.clock_skew, now);
        self.fruitful_claims += u64::from(batch.is_fruitful());
        self.claimer.answered(&batch, now);
        batch
            .ended
            .iter()
            .for_each(|end| self.context.report.ended_by_claim(end));
        self.compare_fences(&batch);
        self.note_state(batch.bucket);
        self.settler.extend(std::mem::take(&mut batch.settle));
        let started = self.start_all(&mut batch, now);
        let running = self.attempts.len();
        self.wiring.status.update(|health| {
            health.clock_skew = batch.clock_skew;
            health.started += started;
            health.running = running;
        });
    }

    /// Compares fences, which only grow. If a store's largest fence is below one that it issued,
    /// the store has lost everything after that.
    fn compare_fences(&mut self, batch: &Batch) {
        let (known, found) = (self.last_fence, batch.high_water);
        let settled = batch.settle.iter().map(|ending| ending.lock().fence);
        let started = batch.start.iter().map(|task| task.lock.fence);
        self.last_fence = started.chain(settled).fold(found, u64::max);
        let Some(what) = loss(known, found) else {
            return;
        };
        error!(bucket = %self.bucket, %what,
            "the store has lost data: accepted tasks may be gone, ended ones may run again");
        self.wiring.status.update(|health| {
            health.store_losses += 1;
            health.last_store_loss = Some(what);
        });
        self.context.report.store_lost_data();
        self.wiring.notify(Notice::StoreLostData);
    }

    /// Starts the tasks of a batch, or gives them back. Returns the number started.
    fn start_all(&mut self, batch: &mut Batch, now: Duration) -> u64 {
        let mut started = 0;
        let may_start = self.wiring.stop_at().is_none() || self.context.is_at_most_once();
        for task in std::mem::take(&mut batch.start) {
            let slot = batch.slots.as_mut().and_then(Reserved::start);
            let Some(slot) = slot.filter(|_| may_start) else {
                let back = Ending::give_back(task.lock, &task.history, Duration::ZERO);
                self.settler.extend([back]);
                continue;
            };
            let claimed_at = batch.sent_at;
            let new = NewAttempt {
                task,
                slot,
                claimed_at,
            };
            match self.attempts.start(new, now) {
                Ok(()) => started += 1,
                Err(release) => self.settler.extend([*release]),
            }
        }
        started
    }

    /// Reports a sealed bucket once for each set of handlers: the type has buckets without a
    /// handler.
    fn note_state(&mut self, state: BucketState) {
        let handlers = self.context.handlers.load(Ordering::Relaxed);
        if state == BucketState::Sealed && self.sealed_among != Some(handlers) {
            self.sealed_among = Some(handlers);
            let task_type = self.bucket.task_type().clone();
            self.wiring.notify(Notice::Sealed(task_type));
        }
        self.is_drained |= state == BucketState::Drained;
    }

    fn on_settled(&mut self, settled: Settled) {
        let outcomes = match settled.outcomes {
            Ok(outcomes) => outcomes,
            Err(error) => {
                self.settler.failed(settled.batch, &error, self.elapsed());
                return self.wiring.status.failed(SETTLE, error);
            }
        };
        self.settler.succeeded();
        self.wiring.status.answered(SETTLE);
        let ends = settled.batch.iter();
        if let Some(soonest) = ends
            .filter_map(|one| one.settlement.end.due_again_in())
            .min()
        {
            self.claimer
                .claim_by(settled.sent_at.saturating_add(soonest));
        }
        let (mut count, mut lost, mut dead, mut failed) = (0, 0, 0, 0);
        for (ending, outcome) in settled.batch.into_iter().zip(outcomes) {
            if outcome == SettleOutcome::Busy {
                self.settler.is_busy(ending, self.elapsed());
                continue;
            }
            let was_known = self.attempts.settled(ending.lock());
            if let Some(failure) = Failure::late(&ending) {
                self.context.report.failed(&failure);
                failed += 1;
            }
            if outcome == SettleOutcome::Settled {
                self.context.report.settled(&ending);
                count += 1;
                dead += u64::from(matches!(ending.settlement.end, AttemptEnd::Dead { .. }));
            } else if !was_known {
                let how = "its lock was lost before it could be settled: it may run again";
                let id = &ending.lock().id;
                self.context.report.lock_lost(id, ending.attempt, how);
                lost += 1;
            }
        }
        self.wiring.status.update(|health| {
            health.settled += count;
            health.dead += dead;
            health.failed += failed;
            health.locks_lost += lost;
        });
    }

    /// An extension was answered, or none is needed any more.
    fn extension_answered(&mut self) {
        self.is_extension_failing = false;
        self.wiring.status.answered(EXTEND);
    }

    fn on_extended(&mut self, extended: Extended) {
        match extended.outcomes {
            Ok(outcomes) => {
                for (seq, outcome) in extended.seqs.into_iter().zip(outcomes) {
                    self.attempts.extended(seq, outcome, extended.sent_at);
                }
                self.extension_answered();
            }
            Err(error) => {
                self.is_extension_failing = true;
                let retry_at = self.elapsed() + EXTEND_RETRY;
                for seq in extended.seqs {
                    self.attempts.extend_failed(seq, retry_at);
                }
                self.wiring.status.failed(EXTEND, error);
            }
        }
    }
}
