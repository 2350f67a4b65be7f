//! Operations on tasks except the claim, with one function for each.

use std::collections::BTreeSet;
use std::time::Duration;

use super::entry::{Entry, Task};
use super::type_tasks::TypeTasks;
use crate::error::{Error, Result};
use crate::job::{NewTask, When};
use crate::machine::{self, Bound, Settling, Submission, due_at};
use crate::name::{TaskId, TaskType};
use crate::operate::DeadFilter;
use crate::state::TaskState;
use crate::store::SubmitOutcome;
use crate::store::{CancelOutcome, ChangeOutcome, ExtendOutcome, SettleOutcome, Settlement};
use crate::task::{Headers, Lock, replace_headers};
use crate::time::Timestamp;

pub(super) fn submit(tasks: &mut TypeTasks, new: NewTask) -> Result<SubmitOutcome> {
    let existing = tasks.entries.get(&new.id).map(|entry| entry.existing(&new));
    let bound = Bound {
        pending: tasks.count(TaskState::Scheduled) as u64,
        limit: tasks.max_pending,
    };
    let replaced = match machine::submit(existing, &new, bound) {
        Submission::Answered(outcome) => return Ok(outcome),
        Submission::Accepted { replaced } => replaced,
        Submission::RunsAgain => {
            let (id, mut due_at, reading) = (new.id.clone(), Timestamp::ZERO, tasks.reading);
            tasks.change(&id, |task| due_at = task.run_again(new, reading));
            return Ok(SubmitOutcome::RunsAgain { due_at });
        }
        Submission::Full { limit } => {
            tasks.refused = tasks.refused.saturating_add(1);
            return Err(Error::QueueFull {
                task_type: new.task_type.to_string(),
                pending: bound.pending,
                limit,
            });
        }
    };
    let old = tasks.take(&new.id);
    let waiting_since = old.as_ref().and_then(Entry::waiting_since);
    let id = new.id.clone();
    let task = Task::new(new, waiting_since, tasks.reading);
    let due_at = task.book.at;
    tasks.put(id, Entry::Live(Box::new(task)));
    Ok(SubmitOutcome::Accepted { due_at, replaced })
}

/// Removes everything except the largest fence, if there are no tasks.
pub(super) fn drop_type(tasks: &mut TypeTasks, task_type: &TaskType) -> Result<()> {
    let count = |state| tasks.count(state) as u64;
    let in_use = [TaskState::Scheduled, TaskState::Running, TaskState::Dead].map(count);
    if let [scheduled, running, dead] = in_use
        && in_use != [0; 3]
    {
        return Err(Error::TypeInUse {
            task_type: task_type.to_string(),
            scheduled,
            running,
            dead,
        });
    }
    tasks.clear();
    Ok(())
}

pub(super) fn settle(tasks: &mut TypeTasks, settlement: &Settlement) -> SettleOutcome {
    let Lock { id, fence } = &settlement.lock;
    let task = match tasks.entries.get(id) {
        None => return SettleOutcome::LockLost,
        Some(Entry::Ended(task)) => {
            return machine::settle_ended(&task.ended, *fence, settlement.end.kind());
        }
        Some(Entry::Live(task)) => &task.book,
    };
    let before = *task;
    let now = tasks.reading.now;
    let settling = machine::settle(task, *fence, &settlement.end, tasks.reading);
    if let Settling::NotHeld(outcome) = settling {
        return outcome;
    }
    tasks.totals.failed += u64::from(settlement.end.is_failure());
    if let Settling::Changed { task: book, .. } = settling {
        tasks.totals.count(book.state);
    }
    match settling {
        Settling::NotHeld(outcome) => return outcome,
        Settling::Ended(ended) => tasks.end(id, ended),
        Settling::Changed {
            task: book,
            error,
            succeeded,
        } => {
            tasks.change(id, |task| {
                task.succeeded = succeeded.to_vec();
                if let Some(note) = settlement.kept_note() {
                    task.note = Some(note.to_owned());
                }
                if let Some(error) = error {
                    task.end_attempt(book, now, error);
                    task.last_error = Some(error.to_owned());
                } else {
                    task.book = book;
                }
            });
            if book.state == TaskState::Dead {
                tasks.record_death(id, &before);
                tasks.follow(id, book.settled);
            }
        }
    }
    SettleOutcome::Settled
}

pub(super) fn extend(
    tasks: &mut TypeTasks,
    lock: &Lock,
    lock_until: Timestamp,
    is_alone: bool,
) -> ExtendOutcome {
    let Some(task) = tasks.task(&lock.id) else {
        return ExtendOutcome::LockLost;
    };
    let outcome = machine::extend(&task.book, lock.fence, lock_until);
    if outcome != ExtendOutcome::LockLost {
        tasks.change(&lock.id, |task| {
            task.book = task.book.extended(lock_until, is_alone);
        });
    }
    outcome
}

pub(super) fn cancel(tasks: &mut TypeTasks, id: &TaskId, now: Timestamp) -> CancelOutcome {
    let outcome = machine::cancel(tasks.state(id));
    match (outcome, tasks.task(id)) {
        (CancelOutcome::Cancelled, Some(task)) => {
            let ended = task.book.ended(TaskState::Cancelled, now);
            tasks.change(id, |task| task.follow_up = None);
            tasks.end(id, ended);
        }
        (CancelOutcome::Running, _) => {
            tasks.change(id, |task| {
                task.book = task.book.with_cancel_request();
                task.follow_up = None;
            });
        }
        _ => {}
    }
    outcome
}

pub(super) fn reschedule(tasks: &mut TypeTasks, id: &TaskId, when: When) -> ChangeOutcome {
    let due_at = due_at(when, tasks.reading);
    let outcome = machine::change(tasks.state(id), due_at);
    if matches!(outcome, ChangeOutcome::Changed { .. }) {
        tasks.change(id, |task| task.book = task.book.rescheduled(due_at));
    }
    outcome
}

pub(super) fn update(
    tasks: &mut TypeTasks,
    id: &TaskId,
    message: Vec<u8>,
    headers: &Headers,
) -> ChangeOutcome {
    let due_at = tasks.task(id).map_or(Timestamp::ZERO, |task| task.book.at);
    let outcome = machine::change(tasks.state(id), due_at);
    if matches!(outcome, ChangeOutcome::Changed { .. }) {
        tasks.change(id, |task| {
            task.message = message;
            replace_headers(&mut task.headers, headers);
        });
    }
    outcome
}

pub(super) fn requeue_dead(
    tasks: &mut TypeTasks,
    filter: &DeadFilter,
    interval: Duration,
    now: Timestamp,
) -> Vec<TaskId> {
    let ids = dead(tasks, filter);
    let mut due_at = now;
    for id in &ids {
        tasks.change(id, |task| task.book = task.book.requeued(due_at));
        due_at = due_at.plus(interval);
    }
    ids
}

pub(super) fn discard_dead(tasks: &mut TypeTasks, filter: &DeadFilter) -> Vec<TaskId> {
    let ids = dead(tasks, filter);
    for id in &ids {
        tasks.record_removal(id);
        tasks.take(id);
    }
    ids
}

/// The dead tasks selected by `filter`, without duplicates.
fn dead(tasks: &TypeTasks, filter: &DeadFilter) -> Vec<TaskId> {
    match filter {
        DeadFilter::Ids(ids) => {
            let mut selected = BTreeSet::new();
            let dead = |id: &&TaskId| tasks.state(id) == Some(TaskState::Dead);
            let once = |id: &&TaskId| selected.insert((*id).clone());
            ids.iter().filter(dead).filter(once).cloned().collect()
        }
        DeadFilter::Matching {
            died_before,
            error_contains,
            limit,
        } => {
            let has_error = |id: &TaskId| {
                let task = tasks.task(id);
                let error = task.and_then(|task| task.last_error.as_deref());
                error_contains
                    .as_deref()
                    .is_none_or(|text| error.is_some_and(|e| e.contains(text)))
            };
            let died_in_time = |at: Timestamp| died_before.is_none_or(|before| at < before);
            let matches = |(at, id): &&(Timestamp, TaskId)| died_in_time(*at) && has_error(id);
            let dead = tasks.all(TaskState::Dead).filter(matches);
            dead.take(*limit).map(|(_, id)| id.clone()).collect()
        }
    }
}

pub(super) fn purge(tasks: &mut TypeTasks, state: TaskState) -> u64 {
    let ids: Vec<TaskId> = tasks.all(state).map(|(_, id)| id.clone()).collect();
    for id in &ids {
        tasks.record_removal(id);
        tasks.take(id);
    }
    ids.len() as u64
}
