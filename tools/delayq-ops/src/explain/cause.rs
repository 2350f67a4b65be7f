//! Causes of a task's state.

use std::fmt;
use std::time::Duration;

use delayq_plugin::{ClockSkew, Rate, TaskId, Timestamp, WaitsFor};
use serde::Serialize;

use super::Pace;
use crate::span;

/// The reason why a task has not started, or how it ended, with the figures. In JSON an object
/// whose `cause` is the name in snake case: `{"cause":"paused","until":null}`.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case", tag = "cause")]
#[non_exhaustive]
pub enum Cause {
    /// Scheduled, with its due time ahead.
    NotDue {
        /// Its due time, by the store's clock.
        due_at: Timestamp,
        /// The time until then.
        #[serde(rename = "wait_ms", serialize_with = "span::millis")]
        wait: Duration,
        /// The origin of the due time: delay, release or requeue.
        from: WaitsFor,
    },
    /// Scheduled, and waiting for the next attempt after a failed one.
    Retry {
        /// The time when the next attempt is due, by the store's clock.
        due_at: Timestamp,
        /// The time until then.
        #[serde(rename = "wait_ms", serialize_with = "span::millis")]
        wait: Duration,
        /// The number of attempts made.
        attempt: u32,
        /// The time when the last one failed; `None` if an earlier release stored the failure.
        failed_at: Option<Timestamp>,
        /// Its error, see `AttemptHistory::last_error`.
        error: Option<String>,
    },
    /// Due, but its type is paused. The start of the pause is not stored.
    Paused {
        /// The end of the pause; `None`: until a resume.
        until: Option<Timestamp>,
    },
    /// Due, but no announced instance serves its type.
    Unserved {
        /// The number of all announced instances.
        instances: usize,
    },
    /// Due, but every slot of the fleet concurrency is taken.
    ConcurrencyFull {
        /// The limit, if it is in the settings of the type; workers' limits are not stored.
        limit: Option<u32>,
        /// The number of running tasks of the type.
        running: u64,
        /// The oldest of up to 128 running tasks.
        oldest: Option<OldestRun>,
    },
    /// Due, but the fleet rate allows no start now.
    RateReached {
        /// The rate, if it is in the settings of the type; workers' rates are not stored.
        limit: Option<Rate>,
    },
    /// Due by only one of the clocks of the store and of this host.
    ClocksDiffer {
        /// Its due time.
        due_at: Timestamp,
        /// The difference between the clocks.
        skew: ClockSkew,
    },
    /// Due, but tasks that were due earlier come first.
    Backlog {
        /// Their number, without those due in the same millisecond.
        ahead: u64,
        /// True if `ahead` was counted. If not, the type has more than 10,000 due tasks, or its
        /// store does not count, and `ahead` is the number of all of them.
        is_exact: bool,
        /// The number of running tasks of the type.
        running: u64,
        /// The oldest of up to 128 running tasks.
        oldest: Option<OldestRun>,
        /// The present pace; `None` if the store has no figures for the last hour.
        pace: Option<Pace>,
        /// The expected wait at this pace; `None` if not known.
        #[serde(rename = "wait_ms", serialize_with = "span::optional_millis")]
        wait: Option<Duration>,
    },
    /// Due, and the next in line: its handlers are busy, or have not noticed it yet.
    Next {
        /// The number of instances that serve the type, as far as they name it.
        instances: usize,
        /// The number of running tasks of the type.
        running: u64,
        /// The oldest of up to 128 running tasks.
        oldest: Option<OldestRun>,
    },
    /// It is running.
    Running {
        /// The start, by the store's clock; `None` if an earlier release claimed it.
        since: Option<Timestamp>,
        /// The attempt.
        attempt: u32,
        /// The instance that runs it; `None` if an earlier release claimed it.
        holder: Option<Holder>,
        /// True if a cancel was requested.
        cancel_requested: bool,
    },
    /// It is locked by an instance that is no longer announced: the instance has ended, or is cut
    /// off.
    LockOrphaned {
        /// The instance, by the short form of its identity.
        holder: String,
        /// The time when the lock expires and another instance can take the task.
        until: Timestamp,
        /// True if the lock has expired: the next claim takes the task.
        is_expired: bool,
        /// The attempt.
        attempt: u32,
    },
    /// It is done.
    Done {
        /// The time of its end.
        at: Timestamp,
        /// The error of an at-most-once task that failed.
        error: Option<String>,
    },
    /// It was cancelled.
    Cancelled {
        /// The time of its end.
        at: Timestamp,
    },
    /// Its expiry had passed, or its type drops late tasks.
    Expired {
        /// The time of its end.
        at: Timestamp,
    },
    /// It is dead until somebody requeues or discards it.
    Dead {
        /// The time of its death.
        at: Timestamp,
        /// The number of attempts made.
        attempt: u32,
        /// The error that killed it.
        error: Option<String>,
    },
    /// The store has no such task.
    Unknown {
        /// True if the type is listed, so some task of it was sent or served.
        is_listed: bool,
        /// A task that ended later than this would be known, unless it was purged or its type
        /// dropped. `None`: the store does not know.
        remembered_since: Option<Timestamp>,
    },
}

/// The running task that was claimed first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct OldestRun {
    /// The task.
    pub id: TaskId,
    /// The time when it was claimed.
    pub since: Timestamp,
}

/// The instance that runs a task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Holder {
    /// The short form of its identity.
    pub instance: String,
    /// Its host; `None` if it is not announced.
    pub host: Option<String>,
    /// Its process id on that host.
    pub pid: Option<u32>,
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let instance = &self.instance;
        match (&self.host, self.pid) {
            (Some(host), Some(pid)) => write!(f, "on {host} (pid {pid}, instance {instance})"),
            _ => write!(f, "on the instance {instance}"),
        }
    }
}
