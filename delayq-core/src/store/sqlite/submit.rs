//! Submit: accepts a task, or says what stands against it.

use super::error::Outcome;
use super::record::{StoredExpiry, checksum, headers_text};
use super::stored::Stored;
use super::tx::{Bucket, Tx};
use crate::job::{NewTask, OnConflict, When};
use crate::state::TaskState;
use crate::store::SubmitOutcome;
use crate::time::duration_ms;

impl Tx<'_> {
    pub(super) fn submit(&mut self, new: &NewTask) -> Outcome<SubmitOutcome> {
        self.bucket(&new.task_type)?.submit(new)
    }
}

impl Bucket<'_> {
    fn submit(&mut self, new: &NewTask) -> Outcome<SubmitOutcome> {
        self.list_type();
        // Nearly every id is new, so the insert itself asks whether it is taken.
        if let Some(due_at) = self.insert(new)? {
            let replaced = false;
            return Ok(SubmitOutcome::Accepted { due_at, replaced });
        }
        let old = self.stored(&new.id)?;
        let old = old.ok_or(rusqlite::Error::QueryReturnedNoRows)?;
        let state = old.place.sound_state(&new.id)?;
        let is_over = self.is_over(&old.place);
        if let Some(refusal) = refusal(&old, state, new).filter(|_| !is_over) {
            return Ok(refusal);
        }
        self.remove(&old.place)?;
        let due_at = self.insert(new)?;
        let due_at = due_at.ok_or(rusqlite::Error::QueryReturnedNoRows)?;
        let replaced = !state.is_ended();
        Ok(SubmitOutcome::Accepted { due_at, replaced })
    }

    /// Shows the type in the list of types.
    pub(super) fn list_type(&mut self) {
        if !self.row.listed {
            self.row.listed = true;
            self.row.touch();
        }
    }
}

/// The answer to a submit that `old` stands against.
fn refusal(old: &Stored, state: TaskState, new: &NewTask) -> Option<SubmitOutcome> {
    let is_same = is_same_request(old, state, new);
    let exists = SubmitOutcome::AlreadyExists { state };
    if state.is_ended() {
        return (is_same && new.on_conflict != OnConflict::Replace).then_some(exists);
    }
    match new.on_conflict {
        _ if is_same => Some(exists),
        OnConflict::Keep => Some(exists),
        OnConflict::Replace if state != TaskState::Running => None,
        OnConflict::Replace | OnConflict::Reject => Some(SubmitOutcome::Conflict { state }),
    }
}

/// Whether `new` asks again for what `old` is or was. The time of an ended one is not known.
fn is_same_request(old: &Stored, state: TaskState, new: &NewTask) -> bool {
    let headers = headers_text(&new.headers);
    let expiry = StoredExpiry::new(new.expiry);
    if state.is_ended() {
        let asked = checksum(&new.message, headers.as_deref(), expiry);
        return old.place.checksum == asked;
    }
    let same_time = match (old.delay, new.when) {
        (Some(delay), When::After(asked)) => delay == duration_ms(asked),
        (None, When::At(asked)) => old.place.due == asked.max(old.submitted),
        _ => false,
    };
    same_time && old.message == new.message && old.headers == headers && old.expiry == expiry
}
