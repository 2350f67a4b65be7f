//! State of the shipping.

use std::time::Duration;

use delayq_core::history::EndsStatus;
use delayq_core::store::Concern;
use delayq_core::time::{days, duration_ms};
use delayq_core::{Error, Timestamp};
use serde::Serialize;

use super::shipping::Shipped;

/// The share of the bound from which on it is a concern, in percent.
const MUCH: u64 = 50;

/// How far the history may be behind before that is a concern.
const LATE: Duration = Duration::from_mins(1);

/// How long it is a concern that records were dropped.
const LOST_FOR: Duration = days(1);

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
    /// Records that the database has refused to this process, each for itself. They are dropped;
    /// the log names them.
    pub refused: u64,
    /// The last time when this process saw that records were dropped, at the bound or because the
    /// database refused them. It is a concern for a day.
    pub lost_at: Option<Timestamp>,
    /// The error of the last attempt to ship, if it failed.
    pub last_error: Option<Error>,
}

impl HistoryHealth {
    /// Notes what the store said at `now`. Returns the number of records dropped since it was asked
    /// before.
    pub(super) fn note(&mut self, waiting: EndsStatus, now: Timestamp) -> u64 {
        let is_first = self.waiting.limit == 0;
        let lost = waiting.lost.saturating_sub(self.waiting.lost);
        let lost = if is_first { 0 } else { lost };
        self.behind_ms = duration_ms(behind(&waiting, now)).unsigned_abs();
        self.waiting = waiting;
        let before = self.lost_at.filter(|at| now.since(*at) < LOST_FOR);
        self.lost_at = if lost > 0 { Some(now) } else { before };
        lost
    }

    /// Notes what was shipped at `now`.
    pub(super) fn note_shipped(&mut self, shipped: Shipped, now: Timestamp) {
        self.shipped += shipped.new;
        self.refused += shipped.refused;
        if shipped.refused > 0 {
            self.lost_at = Some(now);
        }
    }

    /// What becomes a problem.
    pub(crate) fn concerns(&self) -> Vec<Concern> {
        let mut concerns = Vec::new();
        let Self { place, waiting, .. } = self;
        let is_late = u128::from(self.behind_ms) >= LATE.as_millis();
        if is_late || waiting.fill_percent() >= MUCH || self.last_error.is_some() {
            let behind = Duration::from_secs(self.behind_ms / 1_000);
            let error = self.last_error.as_ref().map(ToString::to_string);
            let said = error.map_or_else(String::new, |error| format!(": {error}"));
            concerns.push(Concern::new(
                format!("the history in {place} is {behind:?} behind{said}"),
                why(waiting),
                "bring the history database back, or raise `history_buffer`",
            ));
        }
        if self.lost_at.is_some() {
            let (dropped, refused) = (waiting.lost, self.refused);
            concerns.push(Concern::new(
                format!(
                    "records of ended tasks were dropped: {dropped} so far at the bound, and \
                    {refused} that the history has refused"
                ),
                "the history has a gap",
                "raise `history_buffer`, or turn the history of types off that need none; the log \
                 names what was refused",
            ));
        }
        concerns
    }
}

/// How long the first of the records has waited.
fn behind(waiting: &EndsStatus, now: Timestamp) -> Duration {
    waiting.oldest.map_or(Duration::ZERO, |end| now.since(end))
}

fn why(waiting: &EndsStatus) -> String {
    let (count, fill) = (waiting.waiting, waiting.fill_percent());
    format!(
        "{count} records wait in the store and fill {fill} % of their bound; at the bound the \
         oldest are dropped"
    )
}

/// What becomes a problem of the records of ended tasks in a store, if nobody ships them, or not
/// fast enough. For who has no history.
#[must_use]
pub fn concern_of_records(waiting: &EndsStatus, now: Timestamp) -> Option<Concern> {
    let behind = behind(waiting, now);
    let is_due = behind >= LATE || waiting.fill_percent() >= MUCH;
    let found = format!(
        "records of ended tasks wait for a history, the first for {:?}",
        Duration::from_secs(behind.as_secs())
    );
    let fix = "give an instance or the server the option `history`, or write `history = \"off\"` \
        for the types: delayq configure TYPE --history off";
    is_due.then(|| Concern::new(found, why(waiting), fix))
}
