//! Claiming a batch: what a claim brings, sorted into what to start and what to settle unstarted.

use std::sync::Arc;
use std::time::Duration;

use delayq_core::store::{
    AttemptEnd, CLOCK_GUARD, ClaimRequest, EndCause, SettleOutcome, Settlement,
};
use delayq_core::{
    ClaimedTask, Clock, Delivery, Error, Lock, OnLate, Result, Store, TaskType, Timestamp, Trail,
    WorkerOptions,
};
use tracing::{info, warn};

use crate::call::Backoff;
use crate::roster::Crew;

/// What a handler is made of, apart from what changes.
#[derive(Clone, Debug)]
pub(crate) struct Bucket {
    pub(crate) task_type: TaskType,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) crew: Crew,
    pub(crate) options: WorkerOptions,
    pub(crate) max_lock_expiries: u32,
}

/// What one claim brought.
#[derive(Debug)]
pub(crate) struct Batch {
    /// To start now.
    pub(crate) start: Vec<ClaimedTask>,
    /// To settle without a start.
    pub(crate) settle: Vec<Settlement>,
    /// How long until this handler is to claim again; `None`: nothing is known to come.
    pub(crate) next_in: Option<Duration>,
    /// The store's clock, by which due times are reckoned.
    pub(crate) reckoning: Reckoning,
    /// How far the store's clock runs ahead of ours, if that matters; else zero.
    pub(crate) clock_skew: Duration,
    /// The largest fence given before the claim.
    pub(crate) high_water: u64,
}

/// What a claim says of the store's clock. Everything is reckoned from when it was sent: a claim that is sent so much
/// later arrives so much later, however slow the way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reckoning {
    /// `Clock::elapsed` before the claim was sent.
    pub(crate) sent_at: Duration,
    now: Timestamp,
    past: Duration,
}

impl Reckoning {
    /// The `Clock::elapsed` at which `time` has come.
    pub(crate) fn when(&self, time: Timestamp) -> Duration {
        let wait = time.since(self.now).saturating_sub(self.past);
        self.sent_at.saturating_add(wait)
    }
}

impl Bucket {
    /// Claims up to `limit` tasks. For an at-most-once type they are settled as done, too, before
    /// anybody can start them: one whose settlement is not confirmed is not started. When stopping, they
    /// are to be given back instead.
    pub(crate) async fn claim(
        self: Arc<Self>,
        limit: usize,
        is_stopping: impl Fn() -> bool + Send,
    ) -> Result<Batch> {
        let sent_at = self.clock.elapsed();
        let request = ClaimRequest {
            limit,
            lock_for: self.options.lock,
            caller_now: self.clock.now(),
            max_lock_expiries: self.max_lock_expiries,
            fleet: self.options.fleet,
        };
        let claimed = self.store.claim(&self.task_type, &request).await?;
        self.report_ended(&claimed.ended);
        let full = claimed.tasks.len() + claimed.ended.len() >= limit;
        let mut batch = Batch {
            start: Vec::with_capacity(claimed.tasks.len()),
            settle: Vec::new(),
            next_in: if full {
                Some(Duration::ZERO)
            } else {
                claimed.again_in()
            },
            reckoning: Reckoning {
                sent_at,
                now: claimed.now,
                past: claimed.past(),
            },
            clock_skew: self.clock_skew(claimed.store_now),
            high_water: claimed.high_water,
        };
        for task in claimed.tasks {
            match self.refuse(&task, claimed.now) {
                None => batch.start.push(task),
                Some(end) => batch.settle.push(Settlement {
                    lock: task.lock,
                    end,
                }),
            }
        }
        if self.options.delivery == Delivery::AtMostOnce && !batch.start.is_empty() {
            if is_stopping() {
                let back = batch.start.drain(..);
                let back = back.map(|task| give_back(task.lock, task.trail));
                batch.settle.extend(back);
            } else {
                self.settle_before_start(&mut batch, is_stopping).await?;
            }
        }
        Ok(batch)
    }

    /// Compared with our clock after the answer, so that a slow call is not taken for a fast clock.
    fn clock_skew(&self, store_now: Timestamp) -> Duration {
        let ahead = store_now.since(self.clock.now());
        if ahead > CLOCK_GUARD {
            ahead
        } else {
            Duration::ZERO
        }
    }

    /// Why `task` must not be started, if so: it is too late, or an expired lock was its last attempt.
    fn refuse(&self, task: &ClaimedTask, now: Timestamp) -> Option<AttemptEnd> {
        let lateness = now.since(task.due_at);
        let late = self.options.late;
        let is_first = task.attempt == 1 && task.trail.requeues == 0;
        if is_first && lateness > late.after {
            match late.action {
                OnLate::Run => {}
                OnLate::Drop => return Some(AttemptEnd::Expired),
                OnLate::Dead => {
                    let error = format!("late by {lateness:?}, the limit is {:?}", late.after);
                    return Some(AttemptEnd::Dead {
                        error,
                        succeeded: Vec::new(),
                    });
                }
            }
        }
        let max_attempts = self.crew.max_attempts(&task.trail);
        // An at-most-once task that is still there has never started, whatever became of earlier locks.
        let counts = self.options.delivery == Delivery::AtLeastOnce;
        (counts && task.attempt > max_attempts).then(|| AttemptEnd::Dead {
            error: format!(
                "no attempt is left: the lock of attempt {} of {max_attempts} expired",
                task.attempt.saturating_sub(1)
            ),
            succeeded: task.trail.succeeded.clone(),
        })
    }

    /// A lost answer is asked for again while the locks last: a settlement can be repeated, and a task
    /// that was settled and not started would never run. When stopping, what is settled does not wait for that:
    /// the handler might end before it.
    async fn settle_before_start(
        &self,
        batch: &mut Batch,
        is_stopping: impl Fn() -> bool + Send,
    ) -> Result<()> {
        let done = |task: ClaimedTask| {
            let (lock, end) = (task.lock.clone(), AttemptEnd::Done);
            (Settlement { lock, end }, Some(task))
        };
        let mut open: Vec<_> = batch.start.drain(..).map(done).collect();
        open.extend(batch.settle.drain(..).map(|settlement| (settlement, None)));
        let give_up_at = self.clock.elapsed().saturating_add(self.options.lock);
        let mut backoff = Backoff::default();
        loop {
            let settlements = open.iter().map(|(settlement, _)| settlement.clone());
            let settled = self.store.settle(&self.task_type, settlements.collect());
            let settled = settled.await;
            let retry_at = self.clock.elapsed().saturating_add(backoff.next());
            let failed = match settled {
                Ok(outcomes) => {
                    open = self.take_settled(open, outcomes, &mut batch.start);
                    None
                }
                Err(error) => Some(error),
            };
            if open.is_empty() {
                return Ok(());
            }
            let is_over = retry_at >= give_up_at || (is_stopping() && !batch.start.is_empty());
            if is_over || matches!(failed, Some(Error::Closed(_))) {
                let ids = open.iter().filter(|(_, task)| task.is_some());
                let ids: Vec<_> = ids.map(|(one, _)| one.lock.id.as_str()).collect();
                warn!(task_type = %self.task_type, ?ids, error = ?failed,
                    "not started: nobody knows whether these at-most-once tasks are settled");
                return match failed {
                    Some(error) if batch.start.is_empty() => Err(error),
                    _ => Ok(()),
                };
            }
            self.clock.sleep_until(retry_at).await;
        }
    }

    /// Sorts out what was settled, into `start` if it was a task to start. Returns those of which nobody knows.
    fn take_settled(
        &self,
        asked: Vec<(Settlement, Option<ClaimedTask>)>,
        outcomes: Vec<SettleOutcome>,
        start: &mut Vec<ClaimedTask>,
    ) -> Vec<(Settlement, Option<ClaimedTask>)> {
        let mut open = Vec::new();
        for ((settlement, task), outcome) in asked.into_iter().zip(outcomes) {
            match (outcome, task) {
                (SettleOutcome::Unknown, task) => open.push((settlement, task)),
                (SettleOutcome::Settled, task) => start.extend(task),
                (SettleOutcome::LockLost, Some(task)) => {
                    warn!(task_type = %self.task_type, id = %task.lock.id,
                        "not started: the lock of this at-most-once task was lost");
                }
                (SettleOutcome::LockLost, None) => {}
            }
        }
        open
    }

    fn report_ended(&self, ended: &[delayq_core::store::ClaimEnd]) {
        let task_type = &self.task_type;
        for end in ended {
            let id = &end.id;
            match end.cause {
                EndCause::Poison => {
                    warn!(%task_type, %id, "poison: its lock expired too often; sent to dead");
                }
                EndCause::Corrupt => {
                    warn!(%task_type, %id, "its stored record is corrupt; sent to dead");
                }
                cause => info!(%task_type, %id, ?cause, "ended unstarted"),
            }
        }
    }
}

/// Due again at once, with no attempt burned.
pub(crate) fn give_back(lock: Lock, trail: Trail) -> Settlement {
    let end = AttemptEnd::Release {
        after: Duration::ZERO,
        succeeded: trail.succeeded,
    };
    Settlement { lock, end }
}
