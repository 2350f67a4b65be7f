//! State of the shipping.

use std::time::Duration;

use delayq_core::history::EndsStatus;
use delayq_core::store::Concern;
use delayq_core::time::{days, duration_ms};
use delayq_core::{Error, Result, Timestamp};
use delayq_history::Expired;
use serde::Serialize;

use super::shipping::Shipped;

/// The share of the bound from which on it is a concern, in percent.
const MUCH: u64 = 50;

/// How far the history may be behind before that is a concern.
const LATE: Duration = Duration::from_mins(1);

/// How long lives may outlive their retention before that is a concern.
const EXPIRE_WITHIN: Duration = days(1);

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
    /// The error of the last attempt to remove lives whose retention is over, if it failed. It is a
    /// concern after a day.
    pub expire_error: Option<Error>,
    /// The first of the attempts that have failed since one that succeeded.
    pub expire_failed_at: Option<Timestamp>,
    /// How long lives are kept, in milliseconds, if that is longer than this process says: another
    /// instance said so in the last day.
    pub held_ms: Option<i64>,
    /// The most records that a store has said are dropped: a namespace may move to another store.
    #[serde(skip)]
    most_lost: Option<u64>,
}

impl HistoryHealth {
    pub(super) fn of(place: String) -> Self {
        Self {
            place,
            ..Self::default()
        }
    }

    /// Notes what the store said at `now`. Returns the number of records dropped since it was asked
    /// before.
    pub(super) fn note(&mut self, waiting: EndsStatus, now: Timestamp) -> u64 {
        let before = self.most_lost.unwrap_or(waiting.lost);
        let lost = waiting.lost.saturating_sub(before);
        self.most_lost = Some(before.max(waiting.lost));
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

    /// Notes a removal at `now` of lives whose retention is over, of which this process says
    /// `wanted`. Returns true if that is shorter than what counts, as was not known before.
    pub(super) fn note_expired(
        &mut self,
        expired: &Result<Expired>,
        wanted: Duration,
        now: Timestamp,
    ) -> bool {
        let kept_for = match expired {
            Ok(expired) => expired.kept_for,
            Err(error) => {
                self.expire_error = Some(error.clone());
                self.expire_failed_at.get_or_insert(now);
                return false;
            }
        };
        (self.expire_error, self.expire_failed_at) = (None, None);
        let held = (kept_for > wanted).then(|| duration_ms(kept_for));
        let is_new = held.is_some() && self.held_ms.is_none();
        self.held_ms = held;
        is_new
    }

    /// What becomes a problem at `now`.
    #[must_use]
    pub fn concerns(&self, now: Timestamp) -> Vec<Concern> {
        let mut concerns = Vec::new();
        concerns.extend(self.concern_of_expiry(now));
        concerns.extend(self.concern_of_retention());
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
        if self.lost_at.is_some_and(|at| now.since(at) < LOST_FOR) {
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

    fn concern_of_expiry(&self, now: Timestamp) -> Option<Concern> {
        let (error, since) = (self.expire_error.as_ref()?, self.expire_failed_at?);
        let place = &self.place;
        let found = format!("lives in {place} whose retention is over are not removed: {error}");
        let fix = "see that the user of the history may change its tables, and that nothing reads \
            them for hours";
        let is_due = now.since(since) >= EXPIRE_WITHIN;
        is_due.then(|| Concern::new(found, "the history grows", fix))
    }

    fn concern_of_retention(&self) -> Option<Concern> {
        let held_ms = self.held_ms?;
        let kept = match held_ms {
            i64::MAX => "for ever".to_owned(),
            ms => format!("for {} days", ms / duration_ms(days(1))),
        };
        let found = format!(
            "the history in {} is kept {kept}, longer than `history_retention` here",
            self.place
        );
        let why = "an instance has said so within a day; the shorter one counts a day after the \
            last of them";
        let fix = "give all instances and servers of the namespace the same `history_retention`";
        Some(Concern::new(found, why, fix))
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
        "{} records of ended tasks wait for a history, the first for {:?}; {} were dropped so far",
        waiting.waiting,
        Duration::from_secs(behind.as_secs()),
        waiting.lost
    );
    let fix = "if a history is configured, see why it is not written; if not, give an instance or \
        the server the option `history`, or write `history = \"off\"` for the types: delayq \
        configure TYPE --history off";
    is_due.then(|| Concern::new(found, why(waiting), fix))
}

#[cfg(test)]
mod tests {
    use super::*;
    use delayq_core::time::{hours, millis};

    fn waiting(lost: u64) -> EndsStatus {
        let mut waiting = EndsStatus::default();
        (waiting.lost, waiting.limit) = (lost, 1 << 20);
        waiting
    }

    #[test]
    fn a_record_that_was_lost_is_a_concern_for_a_day_and_counted_for_ever() {
        let start = Timestamp::from_millis(1_800_000_000_000);
        let mut health = HistoryHealth::of("sqlite:h".to_owned());
        // What was lost before this process began is none of its concerns.
        assert_eq!(health.note(waiting(7), start), 0);
        assert_eq!(health.concerns(start), []);
        let seen = start.plus(hours(1));
        assert_eq!(health.note(waiting(8), seen), 1);
        let over = seen.plus(days(1));
        for (now, is_concern) in [(seen, true), (over.minus(millis(1)), true), (over, false)] {
            // Also while the store is not asked.
            let concerns = health.concerns(now);
            assert_eq!(concerns.len(), usize::from(is_concern), "{concerns:?}");
            assert!(concerns.iter().all(|one| one.found.contains("8 so far")));
            assert_eq!(health.note(waiting(8), now), 0);
            assert_eq!(health.lost_at.is_some(), is_concern);
        }
        // A refusal is the same, and so is the next one.
        let shipped = Shipped {
            refused: 1,
            ..Shipped::default()
        };
        health.note_shipped(shipped, over);
        health.note(waiting(8), over);
        assert_eq!(health.concerns(over).len(), 1);
        health.note(waiting(8), over.plus(days(1)));
        assert_eq!(health.concerns(over.plus(days(1))), []);
        // Who has no history, and did not see the loss, has none.
        assert_eq!(concern_of_records(&waiting(8), seen), None);
        let mut old = waiting(8);
        (old.waiting, old.oldest) = (1, Some(start));
        let concern = concern_of_records(&old, seen).unwrap();
        assert!(concern.found.contains("8 were dropped"), "{concern:?}");
    }
}
