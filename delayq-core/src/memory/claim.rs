//! Claim: does all the work that is due, and says when to call again.

use super::entry::Task;
use super::type_tasks::TypeTasks;
use crate::error::{Error, Result};
use crate::machine::{self, Claiming, MAX_FENCE, Outlook, Quota, Record, expiry_text};
use crate::name::TaskId;
use crate::state::TaskState;
use crate::store::{ClaimEnd, ClaimRequest, Claimed};
use crate::task::{ClaimedTask, Lock};
use crate::time::Timestamp;

/// `now` is limited by the guard; locks and pauses are measured by `store_now`.
pub(super) fn claim(
    tasks: &mut TypeTasks,
    request: &ClaimRequest,
    now: Timestamp,
    store_now: Timestamp,
) -> Result<Claimed> {
    let mut claimed = Claimed::nothing(now, store_now);
    claimed.high_water = tasks.high_water;
    if let Some(until) = tasks.pause_at(store_now) {
        let has_end = until < Timestamp::MAX;
        claimed.next_in = has_end.then(|| until.since(store_now));
        return Ok(claimed);
    }
    let running = tasks.count(TaskState::Running);
    let request = &request.clone().under(tasks.fleet);
    let mut quota = Quota::new(request, tasks.tat, tasks.reading, running);
    let expired = tasks.reached(TaskState::Running, store_now, quota.limit);
    let due = tasks.reached(TaskState::Scheduled, now, quota.due(expired.len()));
    for id in expired.into_iter().chain(due) {
        take(tasks, id, request, &mut claimed)?;
    }
    if let Some(tat) = quota.take(claimed.tasks.len()) {
        tasks.tat = tat;
    }
    let outlook = Outlook {
        reading: tasks.reading,
        now,
        due: tasks.first(TaskState::Scheduled),
        lock: tasks.first(TaskState::Running),
        is_full: quota.is_full(tasks.count(TaskState::Running)),
        again_at: quota.again_at(),
    };
    tasks.held_back |= outlook.is_held_back();
    claimed.next_in = outlook.next_in();
    Ok(claimed)
}

/// Locks a task, or ends it.
fn take(
    tasks: &mut TypeTasks,
    id: TaskId,
    request: &ClaimRequest,
    claimed: &mut Claimed,
) -> Result<()> {
    let Some(task) = tasks.task(&id) else {
        return Ok(());
    };
    let before = task.book;
    let record = Record {
        holder: task.holder.clone(),
        expires_at: task.expires_at(),
        damage: None,
    };
    let claiming = machine::claim(&task.book, record, tasks.high_water, request, claimed);
    let cause = match claiming.ok_or_else(no_fence)? {
        Claiming::Started { task: book, due_at } => {
            tasks.high_water = book.fence;
            tasks.change(&id, |task| {
                let is_taken_over = task.book.state == TaskState::Running;
                if is_taken_over {
                    let expired = expiry_text(task.holder.as_deref());
                    task.end_attempt(book, claimed.store_now, &expired);
                } else {
                    task.book = book;
                }
                let holder = request.holder.as_ref();
                task.holder = holder.map(|holder| holder.short().to_owned());
                let mut claimed_task = handed_out(task, id.clone(), due_at);
                claimed_task.is_taken_over = is_taken_over;
                claimed.tasks.push(claimed_task);
            });
            return Ok(());
        }
        Claiming::Ended(ended, cause) => {
            tasks.end(&id, ended);
            cause
        }
        Claiming::Dead(book, cause, error) => {
            tasks.totals.count(book.state);
            tasks.change(&id, |task| {
                task.end_attempt(book, claimed.store_now, &error);
                task.last_error = Some(error);
            });
            tasks.record_death(&id, &before);
            tasks.follow(&id, book.settled);
            cause
        }
    };
    claimed.ended.push(ClaimEnd::new(id, cause));
    Ok(())
}

/// A running task as returned to its claimer.
fn handed_out(task: &Task, id: TaskId, due_at: Timestamp) -> ClaimedTask {
    let book = &task.book;
    let lock = Lock {
        id,
        fence: book.fence,
    };
    ClaimedTask {
        attempt: book.attempt(),
        due_at,
        expires_at: task.expires_at(),
        message: task.message.clone(),
        headers: task.headers.clone(),
        history: task.history(),
        ..ClaimedTask::new(lock, book.at, task.submitted_at)
    }
}

fn no_fence() -> Error {
    Error::Corrupt {
        key: "the largest fence given".to_owned(),
        detail: format!("no fence above {MAX_FENCE} is left"),
    }
}
