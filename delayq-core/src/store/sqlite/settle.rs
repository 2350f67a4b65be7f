//! Settle and extend: what the holder of a lock may do.

use super::error::Outcome;
use super::stored::{Place, names_text};
use super::tx::{Bucket, sql_fence};
use crate::job::When;
use crate::state::TaskState;
use crate::store::{AttemptEnd, ExtendOutcome, SettleOutcome, Settlement, cut_error};
use crate::task::Lock;
use crate::time::Timestamp;

const RETRY: &str = "UPDATE tasks SET state = 0, at = ?2, settled = fence, fence = 0, \
     failures = failures + 1, last_error = ?3, succeeded = ?4 WHERE seq = ?1";
const RELEASE: &str = "UPDATE tasks SET state = 0, at = ?2, settled = fence, fence = 0, \
     releases = releases + 1, succeeded = ?3 WHERE seq = ?1";
const DIE: &str = "UPDATE tasks SET state = 2, at = ?2, settled = fence, fence = 0, cancel = 0, \
     failures = failures + 1, last_error = ?3, succeeded = ?4 WHERE seq = ?1";
const EXTEND: &str = "UPDATE tasks SET at = ?2 WHERE seq = ?1";

impl Bucket<'_> {
    pub(super) fn settle(&mut self, settlement: &Settlement) -> Outcome<SettleOutcome> {
        let Settlement { lock, end } = settlement;
        let Some(place) = self.place(&lock.id)? else {
            return Ok(SettleOutcome::LockLost);
        };
        if place.is_held_by(lock.fence) {
            self.settle_held(&place, end)?;
            return Ok(SettleOutcome::Settled);
        }
        let is_repeat = lock.fence > 0 && place.settled == sql_fence(lock.fence);
        Ok(if is_repeat {
            SettleOutcome::Settled
        } else {
            SettleOutcome::LockLost
        })
    }

    fn settle_held(&mut self, place: &Place, end: &AttemptEnd) -> Outcome<()> {
        match end {
            AttemptEnd::Done => self.end(place, TaskState::Done, place.fence),
            AttemptEnd::Expired => self.end(place, TaskState::Expired, place.fence),
            AttemptEnd::Retry { .. } | AttemptEnd::Release { .. } if place.cancel => {
                self.end(place, TaskState::Cancelled, place.fence)
            }
            AttemptEnd::Retry {
                after,
                error,
                succeeded,
            } => {
                let due_at = self.put_back(place, self.due_at(When::After(*after)))?;
                let names = names_text(succeeded);
                self.execute(RETRY, (place.seq, due_at, cut_error(error), names))?;
                Ok(())
            }
            AttemptEnd::Release { after, succeeded } => {
                let due_at = self.put_back(place, self.due_at(When::After(*after)))?;
                self.execute(RELEASE, (place.seq, due_at, names_text(succeeded)))?;
                Ok(())
            }
            AttemptEnd::Dead { error, succeeded } => {
                self.leave(place);
                self.row.add(TaskState::Dead, 1);
                let (now, names) = (self.now.as_millis(), names_text(succeeded));
                self.execute(DIE, (place.seq, now, cut_error(error), names))?;
                Ok(())
            }
        }
    }

    /// Counts that a task is about to be scheduled again; returns the due time as stored.
    pub(super) fn put_back(&mut self, place: &Place, due_at: Timestamp) -> Outcome<i64> {
        self.see_head()?;
        self.leave(place);
        self.row.add(TaskState::Scheduled, 1);
        self.row.lower_head(due_at);
        Ok(due_at.as_millis())
    }

    pub(super) fn extend(&mut self, lock: &Lock, until: Timestamp) -> Outcome<ExtendOutcome> {
        let place = self.place(&lock.id)?;
        let Some(place) = place.filter(|place| place.is_held_by(lock.fence)) else {
            return Ok(ExtendOutcome::LockLost);
        };
        self.execute(EXTEND, (place.seq, until.as_millis()))?;
        Ok(if place.cancel {
            ExtendOutcome::CancelRequested(until)
        } else {
            ExtendOutcome::Extended(until)
        })
    }
}
