//! State of the shipping.

use std::time::Duration;

use delayq_core::history::EndsStatus;
use delayq_core::store::Concern;
use delayq_core::{Error, Timestamp};
use serde::Serialize;

/// The share of the bound from which on it is a concern, in percent.
const MUCH: u64 = 50;

/// How far the history may be behind before that is a concern.
const LATE: Duration = Duration::from_mins(1);

/// The state of the history as this process sees it. In JSON, errors are text.
#[derive(Clone, Debug, Default, Serialize)]
#[non_exhaustive]
pub struct HistoryHealth {
    /// The history database, without secrets.
    pub place: String,
    /// The records that wait in the store, when it was last asked.
    pub waiting: EndsStatus,
    /// How far the history is behind: the time since the end of the oldest record that waits, in
    /// milliseconds; 0 if none does.
    pub behind_ms: u64,
    /// Records that this process has shipped and that the database did not have.
    pub shipped: u64,
    /// The error of the last attempt to ship, if it failed.
    pub last_error: Option<Error>,
}

impl HistoryHealth {
    /// Notes what the store said at `now`.
    pub(super) fn note(&mut self, waiting: EndsStatus, now: Timestamp) {
        let behind = waiting.oldest.map_or(Duration::ZERO, |end| now.since(end));
        self.behind_ms = u64::try_from(behind.as_millis()).unwrap_or(u64::MAX);
        self.waiting = waiting;
    }

    /// What becomes a problem.
    pub(crate) fn concerns(&self) -> Vec<Concern> {
        let mut concerns = Vec::new();
        let Self { place, waiting, .. } = self;
        let is_late = u128::from(self.behind_ms) >= LATE.as_millis();
        let fill = waiting.fill_percent();
        if is_late || fill >= MUCH || self.last_error.is_some() {
            let behind = Duration::from_secs(self.behind_ms / 1_000);
            let error = self.last_error.as_ref().map(ToString::to_string);
            let said = error.map_or_else(String::new, |error| format!(": {error}"));
            concerns.push(Concern::new(
                format!("the history in {place} is {behind:?} behind{said}"),
                format!(
                    "{} records wait in the store and fill {fill} % of their bound; at the bound \
                     the oldest are dropped",
                    waiting.waiting
                ),
                "bring the history database back, or raise `history_buffer`",
            ));
        }
        if waiting.lost > 0 {
            concerns.push(Concern::new(
                format!("{} records of ended tasks were dropped", waiting.lost),
                "they waited for the history database longer than the bound allows: the history \
                 has a gap",
                "raise `history_buffer`, or turn the history of types off that need none",
            ));
        }
        concerns
    }
}
