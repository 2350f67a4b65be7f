//! Lease: one lock that a handler holds, and its next step.

use std::time::Duration;

use delayq_core::worker::StopSignal;
use delayq_core::{AttemptHistory, Lock, TaskError, Timestamp};
use tokio::task::AbortHandle;

use super::{AloneFlag, LeaseDeadline, RunningTask, WithinFlag, WorkerResult};
use crate::company::Member;
use crate::events::FailureCause;
use crate::slots::Slot;
use crate::workers::TypeWorkers;

/// How long to wait for a stopped worker, so that the next attempt does not begin beside it.
pub(super) const STOPPED_WITHIN: Duration = Duration::from_millis(500);

/// How long to wait before the next try to extend a lock whose row a transaction holds.
const HELD_FOR: Duration = Duration::from_millis(200);

/// The state of a lease as this process sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LeaseState {
    /// The lock is held.
    Good,
    /// An extension is in progress.
    Extending,
    /// The lock has expired or has another holder; the workers were told to stop.
    Lost,
    /// The time limit is over and the workers were stopped. The attempt is settled once they have
    /// returned, at this time at the latest.
    Stopping(Duration),
    /// The attempt is settled, but a worker's thread has not returned yet.
    Concluded,
}

/// The next thing to do for a lease, see [`Lease::step`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LeaseStep {
    /// Extend the lock.
    Extend,
    /// The lock has expired; the workers were told to stop.
    Expired,
    /// The time limit is over; the workers were stopped.
    Stopped,
    /// The time limit is over and a worker has not returned: settle the attempt.
    TimedOut,
}

/// One running attempt and its lock. Times are `Clock::elapsed`.
#[derive(Debug)]
pub(crate) struct Lease {
    pub(crate) lock: Lock,
    pub(crate) attempt: u32,
    pub(crate) history: AttemptHistory,
    pub(crate) stop: StopSignal,
    pub(crate) state: LeaseState,
    /// The workers' results so far.
    pub(crate) results: Vec<WorkerResult>,
    /// A worker was ended from outside: it was stopped, or its runtime has ended.
    pub(crate) is_cut_off: bool,
    /// All workers, including those that have returned.
    pub(crate) workers: Vec<AbortHandle>,
    pub(crate) lock_for: Duration,
    /// The end of the lock, by the store's clock.
    pub(crate) lock_until: Timestamp,
    pub(crate) submitted_at: Timestamp,
    pub(crate) deadline: LeaseDeadline,
    pub(crate) extend_at: Duration,
    /// The last extension failed or is in doubt.
    pub(crate) is_extension_failed: bool,
    /// A cancel of the task was requested.
    pub(crate) is_cancel_requested: bool,
    pub(crate) started_at: Duration,
    pub(crate) limit_at: Duration,
    /// The cause to report if the attempt fails.
    pub(crate) cause: FailureCause,
    /// Keeps other attempts of the task from starting here. Released once a worker has outlived its
    /// time limit.
    pub(crate) running_task: Option<RunningTask>,
    /// It runs alone, and its lock is extended as that of such an attempt.
    pub(crate) is_alone: AloneFlag,
    /// Set once a transaction of its worker may end it. From then on that transaction holds the
    /// task, and the lock needs no extension.
    pub(crate) within: WithinFlag,
    /// It runs beside others; `None` for a suspect.
    pub(crate) _member: Option<Member>,
    /// Its share of the type's concurrency, held until all workers have returned.
    pub(crate) _slot: Slot,
}

impl Lease {
    /// The history, with the workers that have succeeded in this attempt so far.
    pub(crate) fn history_so_far(&self, workers: &TypeWorkers) -> AttemptHistory {
        let mut history = self.history.clone();
        let succeeded = self.results.iter().filter(|one| one.result.is_ok());
        let names = succeeded.filter_map(|one| workers.get(one.index));
        history
            .succeeded
            .extend(names.map(|worker| worker.name.to_string()));
        history
    }

    /// True if a worker reports that somebody else has settled the task.
    pub(crate) fn is_settled(&self) -> bool {
        let mut results = self.results.iter();
        results.any(|one| matches!(one.result, Err(TaskError::Settled)))
    }

    /// True if the lock still has to be extended.
    pub(crate) fn needs_extension(&self) -> bool {
        let is_open = matches!(self.state, LeaseState::Good | LeaseState::Extending);
        is_open && !self.within.is_set()
    }

    /// The time of the next step.
    pub(crate) fn timer(&self) -> Duration {
        // A transaction of the worker holds the task.
        let is_held = self.within.is_set();
        let ends = self.deadline.at().min(self.limit_at);
        match self.state {
            LeaseState::Good | LeaseState::Extending if is_held => self.limit_at,
            LeaseState::Good => self.extend_at.min(ends),
            LeaseState::Extending => ends,
            LeaseState::Lost => self.limit_at,
            LeaseState::Stopping(until) => until,
            LeaseState::Concluded => Duration::MAX,
        }
    }

    /// Does what is due at `now`. Locks are extended a little early, so that those of many attempts
    /// are extended together.
    pub(crate) fn step(&mut self, now: Duration) -> Option<LeaseStep> {
        let early = self.lock_for / 30;
        let is_held = self.state == LeaseState::Good && !self.within.is_set();
        let is_early = is_held && self.extend_at <= now + early;
        if self.timer() > now && !is_early {
            return None;
        }
        if matches!(self.state, LeaseState::Stopping(_) | LeaseState::Lost) {
            self.conclude();
            return Some(LeaseStep::TimedOut);
        }
        if self.limit_at <= now {
            // The other half of the remaining lock time is for the settlement.
            let left = self.deadline.at().saturating_sub(now) / 2;
            self.stop_workers();
            self.state = LeaseState::Stopping(now.saturating_add(left.min(STOPPED_WITHIN)));
            return Some(LeaseStep::Stopped);
        }
        if self.within.is_set() {
            // It was set after the look at the time.
            return None;
        }
        if self.deadline.at() <= now {
            self.lose();
            return Some(LeaseStep::Expired);
        }
        self.state = LeaseState::Extending;
        Some(LeaseStep::Extend)
    }

    /// The extension sent at `sent_at` succeeded. A lock that still ends as before was not
    /// extended, because a transaction of the application holds the task.
    pub(crate) fn extended(&mut self, sent_at: Duration, until: Timestamp) {
        if self.state != LeaseState::Extending {
            return;
        }
        self.is_extension_failed = false;
        if until == self.lock_until {
            self.extend_again_at(sent_at.saturating_add(HELD_FOR));
        } else {
            self.lock_until = until;
            self.deadline.put_off(sent_at, self.lock_for);
            self.extend_again_at(sent_at.saturating_add(self.lock_for / 3));
        }
    }

    /// The next extension is at `at`.
    pub(crate) fn extend_again_at(&mut self, at: Duration) {
        if self.state == LeaseState::Extending {
            self.state = LeaseState::Good;
            self.extend_at = at;
        }
    }

    /// The lock has another holder or has expired. Returns true if that was not known yet. An
    /// attempt over its time limit is reported by its settlement instead.
    pub(crate) fn lose(&mut self) -> bool {
        let is_news = matches!(self.state, LeaseState::Good | LeaseState::Extending);
        if is_news {
            self.state = LeaseState::Lost;
            self.stop.stop();
        }
        is_news
    }

    /// Stops the workers; the attempt is settled without them. A blocking worker may return later,
    /// but its follow-ups are not sent.
    pub(crate) fn conclude(&mut self) {
        self.deadline.put_off(Duration::ZERO, Duration::ZERO);
        self.stop_workers();
        self.state = LeaseState::Concluded;
        self.running_task = None;
    }

    fn stop_workers(&self) {
        self.stop.stop();
        self.workers.iter().for_each(AbortHandle::abort);
    }
}
