//! Cancel, reschedule, update, pause: what applications do to tasks and types.

use super::error::Outcome;
use super::stored::Place;
use super::tx::Bucket;
use crate::job::When;
use crate::name::TaskId;
use crate::state::TaskState;
use crate::store::{CancelOutcome, ChangeOutcome};
use crate::time::Timestamp;

const ASK_TO_STOP: &str = "UPDATE tasks SET cancel = 1 WHERE seq = ?1";
const RESCHEDULE: &str = "UPDATE tasks SET at = ?2, due = ?2, delay = NULL WHERE seq = ?1";

impl Bucket<'_> {
    pub(super) fn cancel(&mut self, id: &TaskId) -> Outcome<CancelOutcome> {
        let Some(place) = self.place(id)? else {
            return Ok(CancelOutcome::NotFound);
        };
        Ok(match place.sound_state(id)? {
            TaskState::Scheduled => {
                self.end(&place, TaskState::Cancelled, place.settled)?;
                CancelOutcome::Cancelled
            }
            TaskState::Running => {
                if !place.cancel {
                    self.execute(ASK_TO_STOP, [place.seq])?;
                }
                CancelOutcome::Running
            }
            state => CancelOutcome::Finished(state),
        })
    }

    pub(super) fn reschedule(&mut self, id: &TaskId, when: When) -> Outcome<ChangeOutcome> {
        let place = match self.scheduled(id)? {
            Ok(place) => place,
            Err(refusal) => return Ok(refusal),
        };
        let due_at = self.due_at(when);
        self.see_head()?;
        self.execute(RESCHEDULE, (place.seq, due_at.as_millis()))?;
        self.row.lower_head(due_at);
        self.row.forget_head();
        Ok(ChangeOutcome::Changed { due_at })
    }

    pub(super) fn update(&mut self, id: &TaskId, message: &[u8]) -> Outcome<ChangeOutcome> {
        let place = match self.scheduled(id)? {
            Ok(place) => place,
            Err(refusal) => return Ok(refusal),
        };
        if let Some(stored) = self.stored(id)? {
            self.replace_message(&stored, message)?;
        }
        Ok(ChangeOutcome::Changed { due_at: place.at })
    }

    /// The task if it is scheduled, else why it cannot be changed.
    fn scheduled(&self, id: &TaskId) -> Outcome<Result<Place, ChangeOutcome>> {
        let Some(place) = self.place(id)? else {
            return Ok(Err(ChangeOutcome::NotFound));
        };
        Ok(match place.sound_state(id)? {
            TaskState::Scheduled => Ok(place),
            TaskState::Running => Err(ChangeOutcome::Running),
            state => Err(ChangeOutcome::Finished(state)),
        })
    }

    /// Claims hand out nothing until `until`; a time that is not in the future ends a pause.
    pub(super) fn pause(&mut self, until: Timestamp) {
        let before = self.row.pause_at(self.now);
        self.row.paused_until = until;
        self.row.touch();
        self.row.is_woken |= self.row.pause_at(self.now) < before;
    }
}
