//! Settle and extend: the rights of a lock.

use delayq_core::machine::{self, Settling};
use delayq_core::state::TaskState;
use delayq_core::store::{ExtendOutcome, SettleOutcome, Settlement};
use delayq_core::task::Lock;
use delayq_core::time::Timestamp;

use crate::error::Outcome;
use crate::rows::{FollowUp, Status, TypeTasks};

pub(crate) fn settle(tasks: &mut TypeTasks<'_>, settlement: &Settlement) -> Outcome<SettleOutcome> {
    let Lock { id, fence } = &settlement.lock;
    let Some(row) = tasks.row(id)? else {
        return Ok(SettleOutcome::LockLost);
    };
    let task = match row.status {
        Status::Live(task) => task,
        Status::Ended(ended) => return Ok(machine::settle_ended(&ended, *fence)),
        Status::Unknown => return Ok(SettleOutcome::LockLost),
    };
    match machine::settle(&task, *fence, &settlement.end, tasks.reading) {
        Settling::NotHeld(outcome) => return Ok(outcome),
        Settling::Ended(ended) => tasks.end(&row, ended)?,
        Settling::Changed { task, .. }
            if task.state == TaskState::Dead && FollowUp::start(tasks, &row, task.settled)? => {}
        Settling::Changed {
            task,
            error,
            succeeded,
        } => tasks.change_texts(&row, &task, error, Some(succeeded))?,
    }
    Ok(SettleOutcome::Settled)
}

pub(crate) fn extend(
    tasks: &mut TypeTasks<'_>,
    lock: &Lock,
    until: Timestamp,
) -> Outcome<ExtendOutcome> {
    let row = tasks.row(&lock.id)?;
    let Some((row, task)) = row.as_ref().and_then(|row| Some((row, *row.live()?))) else {
        return Ok(ExtendOutcome::LockLost);
    };
    let outcome = machine::extend(&task, lock.fence, until);
    if outcome != ExtendOutcome::LockLost {
        tasks.lock(row, &task.locked(task.fence, until))?;
    }
    Ok(outcome)
}
