//! Figures about the tasks of a type in a span of time.

use std::ops::AddAssign;
use std::time::Duration;

use serde::Serialize;

use super::Lateness;
use crate::time::Timestamp;

/// Number of slots for chunks of minutes: 24 hours and the present one.
pub const MINUTE_SLOTS: i64 = 25;
/// Number of slots for chunks of hours: 30 days and the present one.
pub const HOUR_SLOTS: i64 = 31;
/// Maximum size of a chunk of minutes in bytes: 42 per minute.
pub const MINUTE_CHUNK_BYTES: usize = 2_560;
/// Maximum size of a chunk of hours in bytes: 48 per hour.
pub const HOUR_CHUNK_BYTES: usize = 1_152;

/// Counts for one type in one span, by the instances that ran its tasks. In JSON, durations are in
/// milliseconds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Figures {
    /// Attempts that started.
    pub started: u64,
    /// Tasks that were done.
    pub done: u64,
    /// Attempts that failed, including those whose task went to dead.
    pub failed: u64,
    /// Tasks that went to dead.
    pub dead: u64,
    /// The sum of the run times of ended attempts, in milliseconds.
    pub run_ms: u64,
    /// The longest run time, in milliseconds.
    pub longest_run_ms: u64,
    /// The lateness of the attempts' starts.
    pub lateness: Lateness,
}

impl Figures {
    /// True if nothing was counted.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Counts the run time of an attempt that ended.
    pub fn ran(&mut self, run_time: Duration) {
        let ms = u64::try_from(run_time.as_millis()).unwrap_or(u64::MAX);
        self.run_ms = self.run_ms.saturating_add(ms);
        self.longest_run_ms = self.longest_run_ms.max(ms);
    }

    /// The mean run time of the attempts that ended; `None` if none did.
    #[must_use]
    pub fn mean_run(&self) -> Option<Duration> {
        let ended = self.done.saturating_add(self.failed);
        self.run_ms.checked_div(ended).map(Duration::from_millis)
    }
}

impl AddAssign<&Self> for Figures {
    fn add_assign(&mut self, other: &Self) {
        self.started = self.started.saturating_add(other.started);
        self.done = self.done.saturating_add(other.done);
        self.failed = self.failed.saturating_add(other.failed);
        self.dead = self.dead.saturating_add(other.dead);
        self.run_ms = self.run_ms.saturating_add(other.run_ms);
        self.longest_run_ms = self.longest_run_ms.max(other.longest_run_ms);
        self.lateness += &other.lateness;
    }
}

/// The length of the spans of figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Step {
    /// Minutes, of the last 24 hours.
    Minute,
    /// Hours, of the last 30 days.
    Hour,
}

impl Step {
    /// The length of a span.
    #[must_use]
    pub fn length(self) -> Duration {
        match self {
            Self::Minute => Duration::from_mins(1),
            Self::Hour => Duration::from_hours(1),
        }
    }

    /// How far back a store keeps the figures.
    #[must_use]
    pub fn reach(self) -> Duration {
        match self {
            Self::Minute => Duration::from_hours(24),
            Self::Hour => Duration::from_hours(24 * 30),
        }
    }

    /// The beginning of the span that contains `time`.
    #[must_use]
    pub fn begin(self, time: Timestamp) -> Timestamp {
        let length = i64::try_from(self.length().as_millis()).unwrap_or(i64::MAX);
        let ms = time.as_millis();
        Timestamp::from_millis(ms - ms.rem_euclid(length))
    }

    /// The length of a chunk in milliseconds.
    pub(super) fn chunk_ms(self) -> i64 {
        match self {
            Self::Minute => 3_600_000,
            Self::Hour => 86_400_000,
        }
    }

    /// The number of slots for its chunks.
    pub(super) fn slots(self) -> i64 {
        match self {
            Self::Minute => MINUTE_SLOTS,
            Self::Hour => HOUR_SLOTS,
        }
    }

    /// The maximum size of a chunk in bytes.
    pub(super) fn most_bytes(self) -> usize {
        match self {
            Self::Minute => MINUTE_CHUNK_BYTES,
            Self::Hour => HOUR_CHUNK_BYTES,
        }
    }

    /// The first letter of its slots' names.
    pub(super) fn letter(self) -> char {
        match self {
            Self::Minute => 'm',
            Self::Hour => 'h',
        }
    }
}

/// Figures of one minute or hour. In JSON the figures' fields are flattened into this object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[allow(
    clippy::exhaustive_structs,
    reason = "a time and what belongs to it, nothing else"
)]
pub struct Spell {
    /// The beginning of the span.
    pub at: Timestamp,
    /// The figures of the span.
    #[serde(flatten)]
    pub figures: Figures,
}
