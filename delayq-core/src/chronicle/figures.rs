//! What happened to the tasks of a type in a span of time.

use std::ops::AddAssign;
use std::time::Duration;

use serde::Serialize;

use super::Lateness;
use crate::time::Timestamp;

/// Slots of chunks of minutes: 24 hours and the present one.
pub const MINUTE_SLOTS: i64 = 25;
/// Slots of chunks of hours: 30 days and the present one.
pub const HOUR_SLOTS: i64 = 31;
/// Most bytes of a chunk of minutes: 42 a minute.
pub const MINUTE_CHUNK_BYTES: usize = 2_560;
/// Most bytes of a chunk of hours: 48 an hour.
pub const HOUR_CHUNK_BYTES: usize = 1_152;

/// Counts of one type in one span, by those who ran its tasks. As JSON spans are milliseconds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Figures {
    /// Attempts that started.
    pub started: u64,
    /// Tasks that were done.
    pub done: u64,
    /// Attempts that failed, those whose task went to dead included.
    pub failed: u64,
    /// Tasks that went to dead.
    pub dead: u64,
    /// The sum of the run times of attempts that ended, milliseconds.
    pub run_ms: u64,
    /// The longest of them, milliseconds.
    pub longest_run_ms: u64,
    /// How late attempts started.
    pub lateness: Lateness,
}

impl Figures {
    /// Whether nothing was counted.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// An attempt ended after `run_time`.
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

/// How long the spans are that figures are asked for.
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

    /// How far back a store keeps them.
    #[must_use]
    pub fn reach(self) -> Duration {
        match self {
            Self::Minute => Duration::from_hours(24),
            Self::Hour => Duration::from_hours(24 * 30),
        }
    }

    /// The beginning of the span that holds `time`.
    #[must_use]
    pub fn begin(self, time: Timestamp) -> Timestamp {
        let length = i64::try_from(self.length().as_millis()).unwrap_or(i64::MAX);
        let ms = time.as_millis();
        Timestamp::from_millis(ms - ms.rem_euclid(length))
    }

    /// Milliseconds of a chunk.
    pub(super) fn chunk_ms(self) -> i64 {
        match self {
            Self::Minute => 3_600_000,
            Self::Hour => 86_400_000,
        }
    }

    /// Slots of its chunks.
    pub(super) fn slots(self) -> i64 {
        match self {
            Self::Minute => MINUTE_SLOTS,
            Self::Hour => HOUR_SLOTS,
        }
    }

    /// Most bytes of a chunk.
    pub(super) fn most_bytes(self) -> usize {
        match self {
            Self::Minute => MINUTE_CHUNK_BYTES,
            Self::Hour => HOUR_CHUNK_BYTES,
        }
    }

    /// What the names of its slots begin with.
    pub(super) fn letter(self) -> char {
        match self {
            Self::Minute => 'm',
            Self::Hour => 'h',
        }
    }
}

/// Figures of one minute or hour. Its fields stand beside each other in JSON.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[allow(
    clippy::exhaustive_structs,
    reason = "a time and what belongs to it, nothing else"
)]
pub struct Spell {
    /// When it begins.
    pub at: Timestamp,
    /// What happened in it.
    #[serde(flatten)]
    pub figures: Figures,
}
