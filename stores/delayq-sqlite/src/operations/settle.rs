//! Settle and extend: the rights of a lock's holder.

use delayq_core::machine::{self, Settling};
use delayq_core::state::TaskState;
use delayq_core::store::{ExtendOutcome, SettleOutcome, Settlement};
use delayq_core::task::Lock;
use delayq_core::time::Timestamp;

use crate::error::Outcome;
use crate::rows::{Status, Texts, TypeTasks, die, end_task, signed};

const NOTE: &str = "UPDATE tasks SET last_error = ?4 \
     WHERE type = ?1 AND id = ?2 AND state = 3 AND settled = ?3 AND last_error IS NULL";

pub(crate) fn settle(tasks: &mut TypeTasks<'_>, settlement: &Settlement) -> Outcome<SettleOutcome> {
    let Lock { id, fence } = &settlement.lock;
    let Some(row) = tasks.row(id)? else {
        return Ok(SettleOutcome::LockLost);
    };
    let task = match row.status {
        Status::Live(task) => task,
        Status::Ended(ended) => {
            let kind = settlement.end.kind();
            return Ok(machine::settle_ended(&ended, *fence, kind));
        }
        Status::Unknown => return Ok(SettleOutcome::LockLost),
    };
    let settling = machine::settle(&task, *fence, &settlement.end, tasks.reading);
    if let Settling::NotHeld(outcome) = settling {
        return Ok(outcome);
    }
    tasks.row.totals.failed += u64::from(settlement.end.is_failure());
    if let Settling::Changed { task, .. } = settling {
        tasks.row.totals.count(task.state);
    }
    match settling {
        Settling::NotHeld(outcome) => return Ok(outcome),
        Settling::Ended(ended) => end_task(tasks, &row, ended)?,
        Settling::Changed {
            task,
            error,
            succeeded,
        } => {
            let texts = Texts {
                error,
                succeeded: Some(succeeded),
                note: settlement.kept_note(),
            };
            if task.state == TaskState::Dead {
                die(tasks, &row, &task, &texts)?;
            } else {
                tasks.change_texts(&row, &task, &texts)?;
            }
        }
    }
    Ok(SettleOutcome::Settled)
}

/// Records the error of the task that `lock` has settled as done.
pub(crate) fn note_failure(tasks: &mut TypeTasks<'_>, lock: &Lock, error: &str) -> Outcome<bool> {
    let key = (tasks.row.id, lock.id.as_str(), signed(lock.fence), error);
    let is_noted = tasks.execute(NOTE, key)? > 0;
    if is_noted {
        tasks.row.totals.failed += 1;
        tasks.row.touch();
    }
    Ok(is_noted)
}

pub(crate) fn extend(
    tasks: &mut TypeTasks<'_>,
    lock: &Lock,
    until: Timestamp,
    is_alone: bool,
) -> Outcome<ExtendOutcome> {
    let row = tasks.row(&lock.id)?;
    let Some((row, task)) = row.as_ref().and_then(|row| Some((row, *row.live()?))) else {
        return Ok(ExtendOutcome::LockLost);
    };
    let outcome = machine::extend(&task, lock.fence, until);
    if outcome != ExtendOutcome::LockLost {
        tasks.extend(row, until, is_alone)?;
    }
    Ok(outcome)
}
