//! Reports about a type's tasks: log lines and events.

use std::sync::Arc;
use std::time::Duration;

use delayq_core::log_limit::LogLimit;
use delayq_core::store::{AttemptEnd, ClaimEnd, EndCause};
use delayq_core::worker::Attempt;
use delayq_core::{ClaimedTask, TaskId, TaskType};
use tracing::field::debug;
use tracing::{debug, info, trace, warn};

use crate::ending::Ending;
use crate::events::{FailureCause, TaskEventKind};
use crate::metric::{Outcome, RunCounts};
use crate::tally::Tally;
use crate::telemetry::Telemetry;

/// An attempt that failed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Failure<'a> {
    pub(crate) id: &'a TaskId,
    pub(crate) attempt: u32,
    pub(crate) cause: FailureCause,
    pub(crate) error: &'a str,
    pub(crate) run_time: Duration,
    /// The wait before the next attempt, if there will be one.
    pub(crate) retry_in: Option<Duration>,
}

impl<'a> Failure<'a> {
    /// The failure of an attempt whose transaction was not committed, once that is known.
    pub(crate) fn late(ending: &'a Ending) -> Option<Self> {
        let late = ending.within.as_ref()?.failure?;
        let (AttemptEnd::Retry { error, .. } | AttemptEnd::Dead { error, .. }) =
            &ending.settlement.end
        else {
            return None;
        };
        Some(Self {
            id: &ending.lock().id,
            attempt: ending.attempt,
            cause: late.cause,
            error,
            run_time: ending.run_time,
            retry_in: late.retry_in,
        })
    }
}

/// A log field that is absent if no line was left out.
fn if_any(left_out: u64) -> Option<u64> {
    (left_out > 0).then_some(left_out)
}

/// A wait rounded down to milliseconds, for people.
fn millis(wait: Duration) -> Duration {
    Duration::new(wait.as_secs(), wait.subsec_millis() * 1_000_000)
}

/// Reports of one type. Each kind of line is limited to 5 a second; `left_out` counts the others,
/// which are logged at level `debug`.
#[derive(Debug)]
pub(crate) struct Report {
    task_type: TaskType,
    telemetry: Telemetry,
    counts: Option<RunCounts>,
    tally: Option<Arc<Tally>>,
    failed: LogLimit,
    dead: LogLimit,
    unstarted: LogLimit,
    lost: LogLimit,
}

impl Report {
    pub(crate) fn new(task_type: TaskType, telemetry: Telemetry) -> Self {
        let metrics = telemetry.metrics.as_ref();
        Self {
            counts: metrics.map(|metrics| metrics.runs(&task_type)),
            tally: telemetry.tallies.of(&task_type),
            task_type,
            telemetry,
            failed: LogLimit::new(),
            dead: LogLimit::new(),
            unstarted: LogLimit::new(),
            lost: LogLimit::new(),
        }
    }

    fn emit(&self, id: &TaskId, kind: impl FnOnce() -> TaskEventKind) {
        self.telemetry.hub.emit(&self.task_type, id, kind);
    }

    fn count(&self, count: impl FnOnce(&RunCounts)) {
        if let Some(counts) = &self.counts {
            count(counts);
        }
    }

    fn tally(&self, count: impl FnOnce(&Tally)) {
        if let Some(tally) = &self.tally {
            count(tally);
        }
    }

    /// Reads the clock once for several reports, which all count in this minute. Single reports
    /// read the clock themselves.
    pub(crate) fn read_clock(&self) {
        self.tally(Tally::read_clock);
    }

    /// A claim brought these tasks.
    pub(crate) fn claimed(&self, tasks: &[ClaimedTask]) {
        self.read_clock();
        self.count(|counts| counts.claimed(tasks));
    }

    /// A wake-up reached a handler.
    pub(crate) fn woken(&self) {
        self.count(RunCounts::woken);
    }

    /// The store has lost data.
    pub(crate) fn store_lost_data(&self) {
        self.count(RunCounts::store_lost_data);
    }

    /// The workers of an attempt start.
    pub(crate) fn started(&self, facts: &Attempt) {
        let (id, attempt) = (&facts.id, facts.attempt);
        let lateness = facts.claimed_at.since(facts.due_at);
        trace!(task_type = %self.task_type, %id, attempt, "start");
        self.count(|counts| counts.started(lateness));
        self.tally(|tally| tally.started(lateness));
        self.emit(id, || TaskEventKind::Started { attempt, lateness });
    }

    /// The attempt failed, and the task may be retried.
    pub(crate) fn failed(&self, failure: &Failure<'_>) {
        let task_type = &self.task_type;
        let Failure {
            id, attempt, error, ..
        } = *failure;
        let cause = failure.cause.as_str();
        let retry_in = failure.retry_in.map(|wait| debug(millis(wait)));
        if let Some(left_out) = self.failed.admit().map(if_any) {
            info!(%task_type, %id, attempt, cause, error, retry_in, left_out, "attempt failed");
        } else {
            debug!(%task_type, %id, attempt, cause, error, retry_in, "attempt failed");
        }
        self.emit_failure(failure);
    }

    /// The attempt of an at-most-once task failed. The store already has the task as done, so
    /// nothing else reports the failure.
    pub(crate) fn failed_for_good(&self, failure: &Failure<'_>) {
        let task_type = &self.task_type;
        let Failure { id, error, .. } = *failure;
        let cause = failure.cause.as_str();
        if let Some(left_out) = self.dead.admit().map(if_any) {
            warn!(%task_type, %id, cause, error, left_out,
                    "failed, and never runs again: its type is at most once");
        } else {
            debug!(%task_type, %id, cause, error, "failed, and never runs again");
        }
        self.emit_failure(failure);
    }

    fn emit_failure(&self, failure: &Failure<'_>) {
        self.count(|counts| counts.failed(failure.cause, failure.run_time));
        self.read_clock();
        self.tally(|tally| tally.failed(failure.run_time));
        self.emit(failure.id, || TaskEventKind::Failed {
            attempt: failure.attempt,
            cause: failure.cause,
            error: failure.error.to_owned(),
            run_time: failure.run_time,
            retry_in: failure.retry_in,
        });
    }

    /// The attempt of an at-most-once task succeeded. The store has had the task as done since
    /// before the start; success is counted only now, because a failed one is not done.
    pub(crate) fn succeeded_for_good(&self, id: &TaskId, attempt: u32, run_time: Duration) {
        self.read_clock();
        self.succeeded(id, attempt, run_time);
    }

    fn succeeded(&self, id: &TaskId, attempt: u32, run_time: Duration) {
        self.count(|counts| counts.ran(run_time));
        self.tally(|tally| tally.done(run_time));
        self.emit(id, || TaskEventKind::Succeeded { attempt, run_time });
    }

    /// The store has an at-most-once task as done before it starts.
    pub(crate) fn settled_early(&self) {
        self.count(|counts| counts.settled(Outcome::Done));
    }

    /// The store has the end of an attempt.
    pub(crate) fn settled(&self, ending: &Ending) {
        let (id, attempt) = (&ending.lock().id, ending.attempt);
        match &ending.settlement.end {
            AttemptEnd::Retry { .. } | AttemptEnd::Release { .. } if ending.is_cancel_requested => {
                self.cancelled(id);
            }
            AttemptEnd::Done => {
                self.count(|counts| counts.settled(Outcome::Done));
                self.succeeded(id, attempt, ending.run_time);
            }
            AttemptEnd::Dead { error, .. } => self.died(id, Some(attempt), error),
            AttemptEnd::Release { after, .. } => {
                self.count(|counts| counts.settled(Outcome::Released));
                self.emit(id, || TaskEventKind::Released { after: *after });
            }
            AttemptEnd::Expired => self.expired(id),
            // Already reported as a failure.
            _ => self.count(|counts| counts.settled(Outcome::Retried)),
        }
    }

    fn cancelled(&self, id: &TaskId) {
        self.count(|counts| counts.settled(Outcome::Cancelled));
        self.emit(id, || TaskEventKind::Cancelled);
    }

    fn died(&self, id: &TaskId, attempt: Option<u32>, error: &str) {
        let task_type = &self.task_type;
        if let Some(left_out) = self.dead.admit().map(if_any) {
            warn!(%task_type, %id, attempt, error, left_out,
                    "the task is dead: it waits until somebody requeues or discards it");
        } else {
            debug!(%task_type, %id, attempt, error, "the task is dead");
        }
        self.count(|counts| counts.settled(Outcome::Dead));
        self.tally(Tally::died);
        self.emit(id, || TaskEventKind::Dead {
            attempt,
            error: error.to_owned(),
        });
    }

    fn expired(&self, id: &TaskId) {
        let task_type = &self.task_type;
        if let Some(left_out) = self.unstarted.admit().map(if_any) {
            info!(%task_type, %id, left_out, "expired unstarted");
        } else {
            debug!(%task_type, %id, "expired unstarted");
        }
        self.count(|counts| counts.settled(Outcome::Expired));
        self.emit(id, || TaskEventKind::Expired);
    }

    /// A claim ended the task itself. A damaged bucket can have hundreds of thousands of such
    /// tasks.
    pub(crate) fn ended_by_claim(&self, end: &ClaimEnd) {
        let id = &end.id;
        if matches!(end.cause, EndCause::Poison | EndCause::Cancelled) {
            self.count(RunCounts::lock_expired);
        }
        match end.cause {
            EndCause::Expired => self.expired(id),
            EndCause::Poison => {
                self.died(
                    id,
                    None,
                    "poison: its lock expired too often; its process may crash",
                );
            }
            EndCause::Corrupt => self.died(id, None, "its stored record is corrupt"),
            cause => {
                debug!(task_type = %self.task_type, %id, ?cause, "ended unstarted");
                self.cancelled(id);
            }
        }
    }

    /// The attempt has lost its lock.
    pub(crate) fn lock_lost(&self, id: &TaskId, attempt: u32, how: &str) {
        let task_type = &self.task_type;
        if let Some(left_out) = self.lost.admit().map(if_any) {
            warn!(%task_type, %id, attempt, left_out, "{how}");
        } else {
            debug!(%task_type, %id, attempt, "{how}");
        }
        self.count(RunCounts::lock_lost);
        self.emit(id, || TaskEventKind::LockLost { attempt });
    }
}
