//! What a handler does with the answers of the store and the results of the workers.

use std::sync::Arc;
use std::time::Duration;

use delayq_core::store::{AttemptEnd, ExtendOutcome, MAX_BATCH, SettleOutcome, Settlement};
use delayq_core::worker::Attempt;
use delayq_core::{ClaimedTask, Delivery, Error, FleetLimits, Result, TaskContext};
use tokio::task::{Id, JoinError};
use tokio_util::sync::CancellationToken;
use tracing::field::display;
use tracing::{debug, error, info, trace, warn};

use super::{DelayBucketHandler, Event, Extended};
use crate::claim::{Batch, give_back};
use crate::held::{Held, NewHold, Seq};
use crate::run::{self, HandResult};
use crate::running::{self, Invocation};

/// Wait before a failed extension is tried again: many tries fit into what is left of the lock.
const EXTEND_RETRY: Duration = Duration::from_millis(200);

/// The calls, as the log names them.
const CLAIM: &str = "claim";
pub(super) const SETTLE: &str = "settle";
const EXTEND: &str = "extend";

impl DelayBucketHandler {
    pub(super) fn apply(&mut self, event: Event) {
        match event {
            Event::Claimed(Ok(batch)) => self.on_batch(batch),
            Event::Claimed(Err(error)) => {
                self.reckoning = None;
                self.claim_at = self.elapsed() + self.claim_backoff.next();
                self.on_error(CLAIM, error);
            }
            Event::Settled((batch, sent_at, Ok(outcomes))) => {
                self.settle_backoff.reset();
                let open = self.take_settled(batch, sent_at, &outcomes);
                self.unsure.add(open, self.elapsed());
                self.on_success(SETTLE);
            }
            Event::Settled((batch, _, Err(error))) => {
                // Whatever comes meanwhile does not wait for these: others may be answered.
                let now = self.elapsed();
                self.settle_at = now + self.settle_backoff.next();
                self.unsure.add(batch, now);
                self.on_error(SETTLE, error);
            }
            Event::SettledAgain(settled) => self.on_settled_again(settled),
            Event::Extended(extended) => self.on_extended(extended),
            Event::Finished(result) => self.on_finished(result),
            Event::Woken => {
                self.woken = true;
                self.claim_at = self.elapsed();
            }
            Event::Taken => self.on_taken(),
            Event::Timer => {}
        }
    }

    /// Another instance has taken what was waited for: this one comes for what is next. A claim that came after the
    /// other's knows better; what this one has to come for at once, it does. Limits of the fleet may hold back what
    /// another one sees.
    fn on_taken(&mut self) {
        let taken = self.wiring.taken.borrow_and_update();
        let (Some(taken), Some(reckoning)) = (&*taken, self.reckoning) else {
            return;
        };
        let is_late = self.claim_at <= self.bucket.clock.elapsed();
        let knows_better = taken.fence <= self.last_fence;
        if is_late || knows_better || self.bucket.options.fleet != FleetLimits::NONE {
            return;
        }
        let next = taken.next_due.map_or(Duration::MAX, |next_due| {
            reckoning.when(next_due).saturating_add(taken.turn)
        });
        self.claim_at = next.min(reckoning.sent_at.saturating_add(self.wiring.poll));
    }

    pub(super) fn on_error(&mut self, call: &'static str, error: Error) {
        let task_type = &self.bucket.task_type;
        // One line when it begins, and one when it is over; health tells the rest. Others may succeed meanwhile.
        if self.failing.contains(&call) {
            debug!(%task_type, call, %error, "the store still fails");
        } else {
            self.failing.push(call);
            warn!(%task_type, call, %error, "the store failed; trying again until it answers");
        }
        self.wiring.status.update(|counters| {
            counters.failures_in_a_row = counters.failures_in_a_row.saturating_add(1);
            counters.last_error = Some(error);
        });
    }

    /// Nothing is over while a part of the store still has to be asked again: others answer all the time.
    pub(super) fn on_success(&mut self, call: &'static str) {
        let is_failing = self.failing.contains(&call);
        let is_open = || self.unsure.is_open() || self.held.has_unsure();
        if is_failing && (call == CLAIM || !is_open()) {
            self.failing.retain(|failing| *failing != call);
            info!(task_type = %self.bucket.task_type, call, "the store answers again");
        }
    }

    fn on_batch(&mut self, batch: Batch) {
        let now = self.elapsed();
        self.on_success(CLAIM);
        self.claim_backoff.reset();
        let wait = batch
            .next_in
            .unwrap_or(self.wiring.poll)
            .min(self.wiring.poll);
        // From when it was sent: a claim sent one wait later arrives one wait later, however slow the way.
        let sent_at = batch.reckoning.sent_at;
        self.claim_at = if self.woken {
            now
        } else {
            sent_at.saturating_add(wait)
        };
        self.reckoning = Some(batch.reckoning);
        self.compare_fences(&batch);
        self.unsettled.extend(batch.settle);
        let started = batch.start.len();
        for task in batch.start {
            self.start(task, sent_at, now);
        }
        // For as long as that many are under way: the claims behind it take what is free.
        let kept = self.settle_most.min(self.held.len());
        self.settle_most = started.max(kept).max(MAX_BATCH);
        if self.held.is_empty() {
            // Nothing is left that an extension could tell of.
            self.failing.retain(|call| *call != EXTEND);
        }
        let (running, task_type) = (self.held.len(), &self.bucket.task_type);
        self.wiring.status.update(|counters| {
            if counters.clock_skew.is_zero() && !batch.clock_skew.is_zero() {
                warn!(%task_type, skew = ?batch.clock_skew,
                    "the store's clock runs ahead of this host's: tasks wait for the later of the two");
            }
            counters.failures_in_a_row = 0;
            counters.last_error = None;
            counters.claimed_at = Some(sent_at);
            counters.clock_skew = batch.clock_skew;
            counters.started += started as u64;
            counters.running = running;
        });
    }

    /// Fences only grow. A store that knows only smaller ones than it gave has lost what came after them.
    fn compare_fences(&mut self, batch: &Batch) {
        let (known, found) = (self.last_fence, batch.high_water);
        let settled = batch.settle.iter().map(|settlement| settlement.lock.fence);
        let given = batch
            .start
            .iter()
            .map(|task| task.lock.fence)
            .chain(settled);
        self.last_fence = given.chain([found]).max().unwrap_or(found);
        if found >= known {
            return;
        }
        let what = match found {
            0 => "it was emptied, or another one took its place".to_owned(),
            _ => format!(
                "it has gone back from fence {known} to {found}, as an older copy of it would"
            ),
        };
        error!(task_type = %self.bucket.task_type, %what,
            "the store has lost data: tasks accepted since then may be gone, ended ones may run again");
        self.wiring.status.update(|counters| {
            counters.store_losses += 1;
            counters.last_store_loss = Some(what);
        });
        self.wiring.store_lost_data.notify_one();
    }

    fn start(&mut self, task: ClaimedTask, claimed_at: Duration, now: Duration) {
        let may_start = self.stop_at().is_none() && !self.is_too_late(&task, claimed_at, now);
        // An at-most-once task is settled as done already: it can only be run now or never.
        if !may_start && self.bucket.options.delivery == Delivery::AtLeastOnce {
            self.unsettled.push_back(give_back(task.lock, task.trail));
            return;
        }
        let task_type = self.bucket.task_type.clone();
        let store_now = task.lock_until.minus(self.bucket.options.lock);
        let cancel = CancellationToken::new();
        if self.notice_given {
            cancel.cancel();
        }
        let attempt = Attempt {
            id: task.lock.id.clone(),
            attempt: task.attempt,
            due_at: task.due_at,
            claimed_at: store_now,
            submitted_at: task.submitted_at,
            fence: task.lock.fence,
            headers: task.headers,
            task_type,
        };
        trace!(task_type = %attempt.task_type, id = %attempt.id, attempt = attempt.attempt, "start");
        let run_out = self.held.run_out_of(claimed_at);
        // Settled as done already, an at-most-once task needs no lock.
        let lock = match self.bucket.options.delivery {
            Delivery::AtLeastOnce => Some((Arc::clone(&self.bucket.clock), run_out.clone())),
            Delivery::AtMostOnce => None,
        };
        let (app, open) = (&self.wiring.app, self.bucket.crew.open(&task.trail));
        let invocation = Invocation {
            cx: TaskContext::new(attempt, cancel.clone()),
            message: task.message,
            lock,
        };
        let running = running::start(&mut self.results, app, open, invocation);
        let (lock, attempt, trail) = (task.lock, task.attempt, task.trail);
        let hold = NewHold {
            lock,
            attempt,
            trail,
            cancel,
            running,
            run_out,
            claimed_at,
            started_at: now,
        };
        self.held.add(hold);
    }

    /// The answer of the claim may come too late: the store hung, or this process was stopped. A third of
    /// the lock must be left, or it would run out before the first extension is answered; but a store that
    /// is always so slow must not keep a task from starting for ever.
    fn is_too_late(&self, task: &ClaimedTask, claimed_at: Duration, now: Duration) -> bool {
        let lock = self.bucket.options.lock;
        let fair = if task.trail.releases == 0 {
            lock / 3 * 2
        } else {
            lock
        };
        claimed_at.saturating_add(fair) <= now
    }

    /// Takes in the workers that have finished, so that none is taken for one that is over its time.
    pub(super) fn take_finished(&mut self) {
        while let Some(result) = self.results.try_join_next_with_id() {
            self.on_finished(result);
        }
    }

    fn on_finished(&mut self, result: Result<(Id, Vec<HandResult>), JoinError>) {
        let id = result.as_ref().map_or_else(JoinError::id, |(id, _)| *id);
        let held = self.held.remove(id);
        let running = self.held.len();
        self.wiring
            .status
            .update(|counters| counters.running = running);
        let Some(held) = held else { return };
        // One that came to its end when its time was up has done its work.
        let is_through =
            |(_, results): &(Id, Vec<HandResult>)| results.iter().all(|(_, result)| result.is_ok());
        let is_late = held.is_stopping() && !result.as_ref().is_ok_and(is_through);
        let timed_out = is_late.then(|| self.time_is_up(&held));
        // At most once: settled before it started, whatever came of it.
        if self.bucket.options.delivery == Delivery::AtMostOnce {
            return;
        }
        let end = timed_out.unwrap_or_else(|| self.end_of(&held, result));
        let Held { lock, attempt, .. } = held;
        debug!(task_type = %self.bucket.task_type, id = %lock.id, attempt, ?end, "attempt ended");
        self.unsettled.push_back(Settlement { lock, end });
    }

    pub(super) fn time_is_up(&self, held: &Held) -> AttemptEnd {
        let (task_type, limit) = (&self.bucket.task_type, self.bucket.options.timeout);
        warn!(%task_type, id = %held.lock.id, attempt = held.attempt, ?limit, "timed out");
        run::time_is_up(&self.bucket.crew, held.attempt, &held.trail_so_far(), limit)
    }

    fn end_of(&self, held: &Held, result: Result<(Id, Vec<HandResult>), JoinError>) -> AttemptEnd {
        let crew = &self.bucket.crew;
        match result {
            Ok((_, results)) => run::conclude(crew, held.attempt, &held.trail, results),
            Err(error) if error.is_panic() => {
                run::failed(crew, held.attempt, &held.trail, &run::describe(error))
            }
            // The application's runtime is going down; another instance may have more luck. Not at once,
            // or this one would claim it again and again.
            Err(_) => {
                self.wiring.status.update(|counters| {
                    counters.stopped = Some("the runtime that the plugin was started on has ended");
                });
                AttemptEnd::Release {
                    after: self.wiring.poll,
                    succeeded: held.trail_so_far().succeeded,
                }
            }
        }
    }

    /// Returns those of which nobody knows whether they are settled.
    pub(super) fn take_settled(
        &mut self,
        batch: Vec<Settlement>,
        sent_at: Duration,
        outcomes: &[SettleOutcome],
    ) -> Vec<Settlement> {
        let back = batch
            .iter()
            .filter_map(|settlement| settlement.end.due_again_in());
        if let Some(soonest) = back.min() {
            self.claim_at = self.claim_at.min(sent_at.saturating_add(soonest));
        }
        let (mut answered, mut refused, mut lost) = (0, 0, 0);
        let mut open = Vec::new();
        for (settlement, outcome) in batch.into_iter().zip(outcomes) {
            if *outcome == SettleOutcome::Unknown {
                open.push(settlement);
                continue;
            }
            answered += 1;
            let lock = &settlement.lock;
            let known = self.held.settled(lock);
            if *outcome == SettleOutcome::LockLost {
                let (task_type, id) = (&self.bucket.task_type, &lock.id);
                warn!(%task_type, %id, "its lock was lost before it could be settled: it may run again");
                refused += 1;
                lost += u64::from(!known);
            }
        }
        self.wiring.status.update(|counters| {
            counters.settled += answered - refused;
            counters.locks_lost += lost;
        });
        open
    }

    fn on_extended(&mut self, (seqs, sent_at, outcomes): Extended) {
        match outcomes {
            Ok(outcomes) => {
                let is_told = !outcomes.contains(&ExtendOutcome::Unknown);
                for (seq, outcome) in seqs.into_iter().zip(outcomes) {
                    self.on_lock_extended(seq, sent_at, outcome);
                }
                if is_told {
                    self.on_success(EXTEND);
                }
            }
            Err(error) => {
                for seq in seqs {
                    self.extend_again(seq);
                }
                self.on_error(EXTEND, error);
            }
        }
    }

    fn extend_again(&mut self, seq: Seq) {
        let retry_at = self.elapsed() + EXTEND_RETRY;
        self.held.extend_failed(seq, retry_at);
    }

    fn on_lock_extended(&mut self, seq: Seq, sent_at: Duration, outcome: ExtendOutcome) {
        match outcome {
            ExtendOutcome::Extended(_) => self.held.extended(seq, sent_at),
            ExtendOutcome::Unknown => self.extend_again(seq),
            ExtendOutcome::CancelRequested(_) => {
                self.held.extended(seq, sent_at);
                self.held.request_cancel(seq);
            }
            ExtendOutcome::LockLost => {
                // Otherwise it is known already, or the attempt has ended and been settled meanwhile.
                if self.held.lose(seq) {
                    let id = self.held.get(seq).map(|held| display(&held.lock.id));
                    warn!(task_type = %self.bucket.task_type, id, "somebody else has its lock");
                    self.wiring
                        .status
                        .update(|counters| counters.locks_lost += 1);
                }
            }
        }
    }
}
