//! Ended tasks: remembered for the retention, then forgotten in small steps.

use super::error::Outcome;
use super::stored::{Place, select_place};
use super::tx::{Bucket, code, sql_count};
use crate::state::TaskState;
use crate::store::MAX_RETAINED;
use crate::time::Timestamp;

/// The states whose tasks are only remembered.
const ENDED: [TaskState; 3] = [TaskState::Done, TaskState::Cancelled, TaskState::Expired];

/// Ended tasks forgotten in a transaction beyond those that ended in it, so that a heap shrinks.
const EXTRA: usize = 64;

const SELECT_OLDEST: &str = select_place!(
    "INDEXED BY tasks_place WHERE type = ?1 AND state = ?2 AND at <= ?3 ORDER BY at, id LIMIT ?4"
);

impl Bucket<'_> {
    /// Whether a task has ended so long ago that nobody may see it any more.
    pub(super) fn is_over(&self, place: &Place) -> bool {
        let is_ended = place.state.is_some_and(TaskState::is_ended);
        is_ended && place.at.plus(self.retention) <= self.now
    }

    /// Forgets twice as many old tasks as have ended in this transaction.
    pub(super) fn forget_some(&mut self) -> Outcome<()> {
        match self.row.ended {
            0 => Ok(()),
            ended => self.forget(ended + EXTRA).map(drop),
        }
    }

    /// Forgets up to `limit` ended tasks: those whose retention is over, and the oldest ones above
    /// [`MAX_RETAINED`]. Returns how many.
    pub(super) fn forget(&mut self, limit: usize) -> Outcome<usize> {
        let ended = usize::try_from(self.row.count(TaskState::Done)).unwrap_or(usize::MAX);
        let surplus = ended.saturating_sub(MAX_RETAINED).min(limit);
        let before = if surplus > 0 {
            Timestamp::MAX
        } else {
            self.now.minus(self.retention)
        };
        let mut oldest = Vec::new();
        for state in ENDED {
            oldest.append(&mut self.oldest(state, before, limit)?);
        }
        oldest.sort_unstable_by_key(|place| place.at);
        let mut forgotten = 0;
        for place in oldest.iter().take(limit) {
            if forgotten < surplus || self.is_over(place) {
                self.remove(place)?;
                forgotten += 1;
            }
        }
        Ok(forgotten)
    }

    /// Whether [`forget`](Self::forget) would find something.
    pub(super) fn has_to_forget(&self) -> Outcome<bool> {
        if self.row.count(TaskState::Done) > MAX_RETAINED as u64 {
            return Ok(true);
        }
        for state in ENDED {
            let oldest = self.first(state)?;
            if oldest.is_some_and(|at| at.plus(self.retention) <= self.now) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn oldest(&self, state: TaskState, until: Timestamp, limit: usize) -> Outcome<Vec<Place>> {
        let key = (
            self.row.id,
            code(state),
            until.as_millis(),
            sql_count(limit),
        );
        let mut select = self.sql(SELECT_OLDEST)?;
        let places = select.query_map(key, Place::read)?;
        Ok(places.collect::<rusqlite::Result<_>>()?)
    }
}
