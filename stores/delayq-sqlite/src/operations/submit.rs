//! Submit: accepts a task, or answers why not.

use delayq_core::error::{Error, Result};
use delayq_core::job::NewTask;
use delayq_core::machine::{self, Existing, Submission};
use delayq_core::store::SubmitOutcome;

use super::change::list_type;
use crate::error::Outcome;
use crate::rows::{FollowUp, TaskRecord, Tx, TypeTasks};

/// Accepts a task, or answers why not. A refusal is not a failure of the transaction.
pub(crate) fn submit(tx: &mut Tx<'_>, new: &NewTask) -> Outcome<Result<SubmitOutcome>> {
    let mut tasks = tx.made(&new.task_type)?;
    list_type(&mut tasks);
    // Nearly every id is new, so the insert itself finds out if it is taken.
    if tasks.bound().reached().is_none()
        && let Some(due_at) = tasks.insert(new, None)?
    {
        let replaced = false;
        return Ok(Ok(SubmitOutcome::Accepted { due_at, replaced }));
    }
    submit_beside(&mut tasks, new)
}

/// Submits a task whose id is taken, or whose type is full.
fn submit_beside(tasks: &mut TypeTasks<'_>, new: &NewTask) -> Outcome<Result<SubmitOutcome>> {
    let old = tasks.record(&new.id)?;
    let known = old.as_ref().filter(|old| !tasks.is_over(&old.row));
    let existing = match known {
        Some(old) => Some(Existing {
            state: old.row.sound_state(&new.id)?,
            is_same_request: old.is_same_request(new),
        }),
        None => None,
    };
    let bound = tasks.bound();
    let replaced = match machine::submit(existing, new, bound) {
        Submission::Answered(outcome) => return Ok(Ok(outcome)),
        Submission::Accepted { replaced } => replaced,
        Submission::RunsAgain => {
            let due_at = FollowUp::put(tasks, new)?;
            return Ok(Ok(SubmitOutcome::RunsAgain { due_at }));
        }
        Submission::Full { limit } => {
            tasks.row.refused = tasks.row.refused.saturating_add(1);
            tasks.row.touch();
            return Ok(Err(Error::QueueFull {
                task_type: new.task_type.to_string(),
                pending: bound.pending,
                limit,
            }));
        }
    };
    let waiting_since = known.and_then(TaskRecord::waiting_since);
    FollowUp::forget(tasks, &new.id)?;
    if let Some(old) = &old {
        tasks.remove(&old.row)?;
    }
    let due_at = tasks.insert(new, waiting_since)?;
    let due_at = due_at.ok_or(rusqlite::Error::QueryReturnedNoRows)?;
    Ok(Ok(SubmitOutcome::Accepted { due_at, replaced }))
}
