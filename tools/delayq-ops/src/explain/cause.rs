//! Why a task is where it is.

use std::fmt;
use std::time::Duration;

use delayq_plugin::{ClockSkew, Rate, TaskId, Timestamp, WaitsFor};
use serde::Serialize;

use super::Pace;
use crate::span;

/// Why a task has not started, or what became of it, with the figures. As JSON an object whose
/// `cause` is the name in snake case: `{"cause":"paused","until":null}`.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case", tag = "cause")]
#[non_exhaustive]
pub enum Cause {
    /// Scheduled, and its due time is ahead.
    NotDue {
        /// When it is due, on the store's clock.
        due_at: Timestamp,
        /// How long that is from now.
        #[serde(rename = "wait_ms", serialize_with = "span::millis")]
        wait: Duration,
        /// Where the due time comes from: delay, release or requeue.
        from: WaitsFor,
    },
    /// Scheduled, and waits for its next attempt after one that failed.
    Retry {
        /// When the next attempt is due, on the store's clock.
        due_at: Timestamp,
        /// How long that is from now.
        #[serde(rename = "wait_ms", serialize_with = "span::millis")]
        wait: Duration,
        /// How many attempts were made.
        attempt: u32,
        /// When the last one failed; `None` where an earlier release has stored that.
        failed_at: Option<Timestamp>,
        /// What it said, see `AttemptHistory::last_error`.
        error: Option<String>,
    },
    /// Due, and its type is paused. Since when is not stored.
    Paused {
        /// The end of the pause; `None`: until a resume.
        until: Option<Timestamp>,
    },
    /// Due, and no announced instance serves its type.
    Unserved {
        /// How many instances are announced at all.
        instances: usize,
    },
    /// Due, and every slot of the fleet concurrency is taken.
    ConcurrencyFull {
        /// The limit, if it stands in the settings of the type; those of workers are not stored.
        limit: Option<u32>,
        /// How many tasks of the type run.
        running: u64,
        /// The oldest of up to 128 running tasks.
        oldest: Option<OldestRun>,
    },
    /// Due, and the fleet rate allows no start now.
    RateReached {
        /// The rate, if it stands in the settings of the type; those of workers are not stored.
        limit: Option<Rate>,
    },
    /// The clocks of the store and of this host do not agree on whether it is due.
    ClocksDiffer {
        /// When it is due.
        due_at: Timestamp,
        /// How the clocks differ.
        skew: ClockSkew,
    },
    /// Due, and tasks that were due earlier stand before it.
    Backlog {
        /// How many; those due in the same millisecond are not counted.
        ahead: u64,
        /// Whether `ahead` was counted. If not, the type has more than 10,000 due tasks, or its
        /// store does not count, and `ahead` is all of them.
        is_exact: bool,
        /// How many tasks of the type run.
        running: u64,
        /// The oldest of up to 128 running tasks.
        oldest: Option<OldestRun>,
        /// The present pace; `None` where the store has no figures of the last hour.
        pace: Option<Pace>,
        /// How long it has to wait at this pace; `None` if that is not known.
        #[serde(rename = "wait_ms", serialize_with = "span::optional_millis")]
        wait: Option<Duration>,
    },
    /// Due, and the first in line: its handlers are busy, or have yet to notice.
    Next {
        /// How many instances serve the type, as far as they name it.
        instances: usize,
        /// How many tasks of the type run.
        running: u64,
        /// The oldest of up to 128 running tasks.
        oldest: Option<OldestRun>,
    },
    /// It runs.
    Running {
        /// Since when, on the store's clock; `None` if an earlier release claimed it.
        since: Option<Timestamp>,
        /// The attempt.
        attempt: u32,
        /// Who runs it; `None` if an earlier release claimed it.
        holder: Option<Holder>,
        /// Whether a cancel was requested.
        cancel_requested: bool,
    },
    /// It is locked by an instance that is no longer announced: it has ended, or is cut off.
    LockOrphaned {
        /// That instance, by the short form of its identity.
        holder: String,
        /// When the lock expires, and the task is given to another instance.
        until: Timestamp,
        /// Whether that is over: the next claim takes it.
        is_expired: bool,
        /// The attempt.
        attempt: u32,
    },
    /// It is done.
    Done {
        /// When it ended.
        at: Timestamp,
        /// Of an at-most-once task that failed: its error.
        error: Option<String>,
    },
    /// It was cancelled.
    Cancelled {
        /// When it ended.
        at: Timestamp,
    },
    /// Its expiry had passed, or its type drops late tasks.
    Expired {
        /// When it ended.
        at: Timestamp,
    },
    /// It is dead, until somebody requeues or discards it.
    Dead {
        /// When it died.
        at: Timestamp,
        /// How many attempts were made.
        attempt: u32,
        /// What killed it.
        error: Option<String>,
    },
    /// The store has no such task.
    Unknown {
        /// Whether the type is listed: something of it was sent or served.
        is_listed: bool,
        /// A task that ended later than this would be known, unless it was purged or its type
        /// dropped. `None`: the store does not say.
        remembered_since: Option<Timestamp>,
    },
}

/// The running task that was claimed first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct OldestRun {
    /// The task.
    pub id: TaskId,
    /// When it was claimed.
    pub since: Timestamp,
}

/// The instance that runs a task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Holder {
    /// The short form of its identity.
    pub instance: String,
    /// Its host; `None` when it is not announced.
    pub host: Option<String>,
    /// Its process on that host.
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
