//! Submit: accepts a task, or says what stands against it.

use super::error::Outcome;
use super::record::{StoredExpiry, checksum, headers_text};
use super::stored::Stored;
use super::tx::{Bucket, Tx};
use crate::error::{Error, Result};
use crate::job::{NewTask, OnConflict, When};
use crate::state::TaskState;
use crate::store::{SubmitOutcome, TypeSettings};
use crate::time::duration_ms;

impl Tx<'_> {
    /// Accepts a task, or says why not. What is refused is no failure of the transaction.
    pub(super) fn submit(&mut self, new: &NewTask) -> Outcome<Result<SubmitOutcome>> {
        self.bucket(&new.task_type)?.submit(new)
    }
}

impl Bucket<'_> {
    fn submit(&mut self, new: &NewTask) -> Outcome<Result<SubmitOutcome>> {
        self.list_type();
        let full = self.full(new);
        // Nearly every id is new, so the insert itself asks whether it is taken.
        if full.is_none()
            && let Some(due_at) = self.insert(new)?
        {
            let replaced = false;
            return Ok(Ok(SubmitOutcome::Accepted { due_at, replaced }));
        }
        let Some(old) = self.stored(&new.id)? else {
            let full = full.ok_or(rusqlite::Error::QueryReturnedNoRows)?;
            return Ok(Err(self.refused(full)));
        };
        let state = old.place.sound_state(&new.id)?;
        let is_over = self.is_over(&old.place);
        if let Some(refusal) = refusal(&old, state, new).filter(|_| !is_over) {
            return Ok(Ok(refusal));
        }
        let replaced = !state.is_ended();
        if let Some(full) = full.filter(|_| !replaced) {
            return Ok(Err(self.refused(full)));
        }
        self.remove(&old.place)?;
        let due_at = self.insert(new)?;
        let due_at = due_at.ok_or(rusqlite::Error::QueryReturnedNoRows)?;
        Ok(Ok(SubmitOutcome::Accepted { due_at, replaced }))
    }

    /// The refusal of a new task, if it is one too many.
    fn full(&self, new: &NewTask) -> Option<Error> {
        let limit = self.row.bounds.max_pending?;
        let pending = self.row.count(TaskState::Scheduled);
        (pending >= limit).then(|| Error::QueueFull {
            task_type: new.task_type.to_string(),
            pending,
            limit,
        })
    }

    fn refused(&mut self, full: Error) -> Error {
        self.row.bounds.refused = self.row.bounds.refused.saturating_add(1);
        self.row.touch();
        full
    }

    /// Changes the settings of the type.
    pub(super) fn configure(&mut self, settings: &TypeSettings) {
        settings.max_pending.apply(&mut self.row.bounds.max_pending);
        self.row.touch();
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
