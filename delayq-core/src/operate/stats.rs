//! Numbers of one type.

use std::time::Duration;

use serde::Serialize;

use crate::fleet::Rate;
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

impl TypeStats {
    /// How long the first task has been due; zero when none is.
    #[must_use]
    pub fn oldest_age(&self) -> Duration {
        self.next_due
            .map_or(Duration::ZERO, |due| self.now.since(due))
    }
}
