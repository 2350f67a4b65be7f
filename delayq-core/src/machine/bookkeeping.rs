//! Bookkeeping of a task: the values that its operations read and change.

use std::time::Duration;

use crate::job::When;
use crate::state::TaskState;
use crate::store::{EndKind, SettleOutcome};
use crate::task::AttemptHistory;
use crate::time::{Reading, Timestamp, duration_ms};

use super::due_at;

/// The last settled lock of a task, by which a repeated settlement is recognised.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Settled {
    /// Its fence, 0 for none.
    pub fence: u64,
    /// The kind of its end; `None` if not known, because an earlier release settled it.
    pub by: Option<EndKind>,
}

impl Settled {
    /// The answer to a settlement with a lock that does not hold the task.
    pub(super) fn answer(self, fence: u64, end: EndKind) -> SettleOutcome {
        let is_same_end = self.by.is_none_or(|by| by == end);
        if fence > 0 && self.fence == fence && is_same_end {
            SettleOutcome::Settled
        } else {
            SettleOutcome::LockLost
        }
    }
}

/// The bookkeeping of a task that has not ended.
///
/// Every method returns the bookkeeping after one step. No method checks that the step is allowed:
/// the caller decides that before, from the state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bookkeeping {
    /// Scheduled, running or dead.
    pub state: TaskState,
    /// By state: when it is due, when its lock expires, when it died.
    pub at: Timestamp,
    /// The due time set by the last submit, reschedule or requeue; a retry does not change it.
    pub asked_due: Timestamp,
    /// The delay of the submit in milliseconds; `None` for an absolute time, and after a reschedule
    /// or requeue.
    pub delay_ms: Option<i64>,
    /// The fence of the lock while it runs, or else 0.
    pub fence: u64,
    /// The last settled lock.
    pub settled: Settled,
    /// True if a cancel was requested; only while it runs.
    pub cancel_requested: bool,
    /// True if its holder runs nothing else; only while it runs.
    pub is_alone: bool,
    /// Attempts that ended in an error.
    pub failures: u32,
    /// Attempts whose lock expired.
    pub lock_expiries: u32,
    /// Times it was given back without using up an attempt.
    pub releases: u32,
    /// Times an operator took it out of dead.
    pub requeues: u32,
}

/// The record of a task that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended {
    /// Done, cancelled or expired.
    pub state: TaskState,
    /// The time of its end.
    pub at: Timestamp,
    /// Attempts made, including the last one if the task was running.
    pub attempt: u32,
    /// The last settled lock.
    pub settled: Settled,
}

impl Bookkeeping {
    /// A task accepted at `reading`.
    #[must_use]
    pub fn accepted(when: When, reading: Reading) -> Self {
        let due_at = due_at(when, reading);
        Self {
            state: TaskState::Scheduled,
            at: due_at,
            asked_due: due_at,
            delay_ms: match when {
                When::After(delay) => Some(duration_ms(delay)),
                When::At(_) => None,
            },
            fence: 0,
            settled: Settled::default(),
            cancel_requested: false,
            is_alone: false,
            failures: 0,
            lock_expiries: 0,
            releases: 0,
            requeues: 0,
        }
    }

    /// The same, but not due later than `max_wait` after `first`, the submit time of the first task
    /// that this one replaces.
    #[must_use]
    pub fn debounced(self, first: Timestamp, max_wait: Duration, now: Timestamp) -> Self {
        let due_at = self.at.min(first.plus(max_wait)).max(now).max(first);
        Self {
            at: due_at,
            asked_due: due_at,
            delay_ms: Some(duration_ms(due_at.since(first))),
            ..self
        }
    }

    /// The same at the moment when the preceding task ends: due now if it was due before. `settled`
    /// is the last settled lock of the preceding task.
    #[must_use]
    pub fn following(self, settled: Settled, now: Timestamp) -> Self {
        Self {
            at: self.at.max(now),
            settled,
            ..self
        }
    }

    /// True if it waits for its first attempt since the submit or the last requeue.
    #[must_use]
    pub fn is_untried(&self) -> bool {
        let tries = [self.failures, self.lock_expiries, self.releases];
        self.state == TaskState::Scheduled && tries == [0; 3]
    }

    /// The current attempt while it runs, or else the number of attempts made.
    #[must_use]
    pub fn attempt(&self) -> u32 {
        let made = self.failures.saturating_add(self.lock_expiries);
        made.saturating_add(u32::from(self.state == TaskState::Running))
    }

    /// True if the lock with this fence holds the task.
    #[must_use]
    pub fn is_held_by(&self, fence: u64) -> bool {
        self.state == TaskState::Running && self.fence == fence
    }

    /// The history, with these texts.
    #[must_use]
    pub fn history(
        &self,
        last_error: Option<String>,
        succeeded: Vec<String>,
        note: Option<String>,
    ) -> AttemptHistory {
        AttemptHistory {
            failures: self.failures,
            lock_expiries: self.lock_expiries,
            releases: self.releases,
            requeues: self.requeues,
            last_error,
            succeeded,
            note,
        }
    }

    /// Running under a lock until `until`.
    #[must_use]
    pub fn locked(self, fence: u64, until: Timestamp) -> Self {
        Self {
            state: TaskState::Running,
            at: until,
            fence,
            is_alone: false,
            ..self
        }
    }

    /// The same with a lock that expires at `until`; `is_alone` if its holder runs nothing else.
    #[must_use]
    pub fn extended(self, until: Timestamp, is_alone: bool) -> Self {
        Self {
            at: until,
            is_alone,
            ..self
        }
    }

    /// Scheduled for `due_at` without a lock; the requested due time does not change.
    #[must_use]
    pub fn put_back(self, due_at: Timestamp) -> Self {
        Self {
            state: TaskState::Scheduled,
            at: due_at,
            fence: 0,
            cancel_requested: false,
            is_alone: false,
            ..self
        }
    }

    /// Moved to `due_at` by a request, so that this becomes the requested due time.
    #[must_use]
    pub fn rescheduled(self, due_at: Timestamp) -> Self {
        Self {
            asked_due: due_at,
            delay_ms: None,
            ..self.put_back(due_at)
        }
    }

    /// Taken out of dead, with its attempts reset.
    #[must_use]
    pub fn requeued(self, due_at: Timestamp) -> Self {
        Self {
            failures: 0,
            lock_expiries: 0,
            releases: 0,
            requeues: self.requeues.saturating_add(1),
            ..self.rescheduled(due_at)
        }
    }

    /// Dead. A cancel request is answered with that.
    #[must_use]
    pub fn died(self, now: Timestamp) -> Self {
        Self {
            state: TaskState::Dead,
            ..self.put_back(now)
        }
    }

    /// Running, and its holder is asked to stop.
    #[must_use]
    pub fn with_cancel_request(self) -> Self {
        Self {
            cancel_requested: true,
            ..self
        }
    }

    /// One more failure.
    pub(super) fn failed(self) -> Self {
        Self {
            failures: self.failures.saturating_add(1),
            ..self
        }
    }

    /// One more release.
    pub(super) fn released(self) -> Self {
        Self {
            releases: self.releases.saturating_add(1),
            ..self
        }
    }

    /// The record after it ends in `state`.
    #[must_use]
    pub fn ended(self, state: TaskState, now: Timestamp) -> Ended {
        Ended {
            state,
            at: now,
            attempt: self.attempt(),
            settled: self.settled,
        }
    }
}
