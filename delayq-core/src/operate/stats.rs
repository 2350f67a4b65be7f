//! Numbers of one type.

use std::ops::Add;
use std::time::Duration;

use serde::Serialize;

use crate::fleet::Rate;
use crate::state::TaskState;
use crate::time::Timestamp;

/// Numbers of one type. As JSON its times are milliseconds since the epoch.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct TypeStats {
    /// The time of these numbers, on the store's clock.
    pub now: Timestamp,
    /// Scheduled tasks, the due ones included.
    pub scheduled: u64,
    /// Scheduled tasks that are due.
    pub due: u64,
    /// Running tasks.
    pub running: u64,
    /// Dead tasks.
    pub dead: u64,
    /// How many tasks have ended, and how.
    pub totals: TypeTotals,
    /// Ended tasks that are remembered now; some of them perhaps past their retention.
    pub remembered: u64,
    /// Every task that ended after this time is still remembered, unless it was purged, its type
    /// dropped, or the retention raised meanwhile: until then a repeated request is recognised. The
    /// retention ago, or later when more tasks ended since than are remembered. `None`: the store
    /// does not say.
    pub remembered_since: Option<Timestamp>,
    /// Due time of the first scheduled task.
    pub next_due: Option<Timestamp>,
    /// When a pause ends ([`Timestamp::MAX`]: it has no end), while paused.
    pub paused_until: Option<Timestamp>,
    /// Most scheduled tasks before new ones are refused; `None`: no bound.
    pub max_pending: Option<u64>,
    /// How many tasks this bound has refused so far.
    pub refused: u64,
    /// Most tasks that run in the fleet by the type's settings; `None`: as the workers say.
    pub fleet_concurrency: Option<u32>,
    /// How many tasks start in a span by the type's settings; `None`: as the workers say.
    pub fleet_rate: Option<Rate>,
}

/// Tasks of a type that have ended, counted since the type was made or last dropped. A process of a
/// release before these counts does not count, and a resize takes the counts of old shards away.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct TypeTotals {
    /// Tasks that were done.
    pub done: u64,
    /// Tasks that went to dead, each time.
    pub dead: u64,
    /// Tasks that were cancelled.
    pub cancelled: u64,
    /// Tasks that expired.
    pub expired: u64,
    /// Attempts that failed.
    pub failed: u64,
}

impl TypeTotals {
    /// Counts a task that has come to `state`, if that is an end.
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
    /// How long the first task has been due; zero when none is.
    #[must_use]
    pub fn oldest_age(&self) -> Duration {
        self.next_due
            .map_or(Duration::ZERO, |due| self.now.since(due))
    }
}
