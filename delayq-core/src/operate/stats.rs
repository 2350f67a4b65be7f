//! Numbers of one type.

use std::ops::Add;
use std::time::Duration;

use serde::Serialize;

use crate::fleet::Rate;
use crate::state::TaskState;
use crate::time::Timestamp;

/// Numbers of one type. In JSON, times are milliseconds since the epoch.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct TypeStats {
    /// The time of these numbers, by the store's clock.
    pub now: Timestamp,
    /// Scheduled tasks, including due ones.
    pub scheduled: u64,
    /// Scheduled tasks that are due.
    pub due: u64,
    /// Running tasks.
    pub running: u64,
    /// Dead tasks.
    pub dead: u64,
    /// Counts of ended tasks by kind of end.
    pub totals: TypeTotals,
    /// Ended tasks remembered now; some may be past their retention.
    pub remembered: u64,
    /// Every task that ended after this time is still remembered, unless it was purged, its type
    /// dropped, or the retention raised meanwhile, so a repeated request is recognised. This is the
    /// present time minus the retention, or later if more tasks have ended since than are
    /// remembered. `None`: the store does not know.
    pub remembered_since: Option<Timestamp>,
    /// Due time of the first scheduled task.
    pub next_due: Option<Timestamp>,
    /// The end of the pause while paused; [`Timestamp::MAX`]: no end.
    pub paused_until: Option<Timestamp>,
    /// Maximum number of scheduled tasks before new ones are refused; `None`: no limit.
    pub max_pending: Option<u64>,
    /// Number of tasks refused by this limit so far.
    pub refused: u64,
    /// Maximum number of running tasks in the fleet by the type's settings; `None`: as the workers'
    /// options say.
    pub fleet_concurrency: Option<u32>,
    /// Starts per span in the fleet by the type's settings; `None`: as the workers' options say.
    pub fleet_rate: Option<Rate>,
    /// The part of its message that the record of each end keeps, in bytes, `u32::MAX` for all;
    /// `None`: ends are not recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub history: Option<u32>,
}

/// Ended tasks of a type, counted since the type was created or last dropped. Processes of a
/// release without these counts do not count, and a resize removes the counts of old shards.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct TypeTotals {
    /// Tasks that were done.
    pub done: u64,
    /// Times that a task went to dead.
    pub dead: u64,
    /// Tasks that were cancelled.
    pub cancelled: u64,
    /// Tasks that expired.
    pub expired: u64,
    /// Attempts that failed.
    pub failed: u64,
}

impl TypeTotals {
    /// Counts a task that has reached `state`, if that is an end.
    pub fn count(&mut self, state: TaskState) {
        match state {
            TaskState::Done => self.done += 1,
            TaskState::Dead => self.dead += 1,
            TaskState::Cancelled => self.cancelled += 1,
            TaskState::Expired => self.expired += 1,
            _ => {}
        }
    }
}

impl Add for TypeTotals {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            done: self.done + other.done,
            dead: self.dead + other.dead,
            cancelled: self.cancelled + other.cancelled,
            expired: self.expired + other.expired,
            failed: self.failed + other.failed,
        }
    }
}

impl TypeStats {
    /// How long the first due task has been due; zero if none is due.
    #[must_use]
    pub fn oldest_age(&self) -> Duration {
        self.next_due
            .map_or(Duration::ZERO, |due| self.now.since(due))
    }
}
