//! Claim: all the work that is due, and when to call again.

use super::entry::{Entry, Task};
use super::type_tasks::TypeTasks;
use crate::error::{Error, Result};
use crate::machine::{ExpiredLock, MAX_FENCE, Outlook, Quota, lock_expired, next_fence};
use crate::name::TaskId;
use crate::state::TaskState;
use crate::store::{ClaimEnd, ClaimRequest, Claimed, EndCause};
use crate::task::{ClaimedTask, Lock};
use crate::time::Timestamp;

/// `now` is held back by the guard; locks and pauses are measured on `store_now`.
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
    let mut quota = Quota::new(request, tasks.tat, tasks.reading, running);
    let expired = tasks.reached(TaskState::Running, store_now, quota.limit);
    let due = tasks.reached(TaskState::Scheduled, now, quota.due(expired.len()));
    for id in expired {
        match expire_lock(tasks, &id, request.max_lock_expiries, store_now) {
            Some(cause) => claimed.ended.push(ClaimEnd::new(id, cause)),
            None => start(tasks, id, request, &mut claimed)?,
        }
    }
    for id in due {
        start(tasks, id, request, &mut claimed)?;
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

/// Takes an expired lock away. The task is scheduled again, or ended for one of two causes.
fn expire_lock(
    tasks: &mut TypeTasks,
    id: &TaskId,
    max_lock_expiries: u32,
    now: Timestamp,
) -> Option<EndCause> {
    match lock_expired(&tasks.task(id)?.book, max_lock_expiries, now) {
        ExpiredLock::Due(book) => {
            tasks.change(id, |task| task.book = book);
            None
        }
        ExpiredLock::Cancelled(ended) => {
            tasks.end(id, ended);
            Some(EndCause::Cancelled)
        }
        ExpiredLock::Poison(book, error) => {
            tasks.change(id, |task| {
                task.book = book;
                task.last_error = Some(error);
            });
            Some(EndCause::Poison)
        }
    }
}

/// Locks a due task, unless its expiry has passed.
fn start(
    tasks: &mut TypeTasks,
    id: TaskId,
    request: &ClaimRequest,
    claimed: &mut Claimed,
) -> Result<()> {
    let Some(task) = tasks.task(&id) else {
        return Ok(());
    };
    let (book, expires_at) = (task.book, task.expires_at());
    if expires_at.is_some_and(|expires_at| expires_at <= claimed.now) {
        tasks.end(&id, book.ended(TaskState::Expired, claimed.store_now));
        let cause = EndCause::Expired;
        claimed.ended.push(ClaimEnd::new(id, cause));
        return Ok(());
    }
    let fence = next_fence(tasks.high_water, claimed.store_now).ok_or_else(no_fence)?;
    tasks.high_water = fence;
    let lock_until = claimed.store_now.plus(request.lock_for);
    tasks.change(&id, |task| task.book = book.locked(fence, lock_until));
    if let Some(Entry::Live(task)) = tasks.entries.get(&id) {
        let lock = Lock { id, fence };
        claimed.tasks.push(handed_out(task, lock, book.at));
    }
    Ok(())
}

/// A running task as its claimer gets it.
fn handed_out(task: &Task, lock: Lock, due_at: Timestamp) -> ClaimedTask {
    let book = &task.book;
    ClaimedTask {
        attempt: book.attempt(),
        due_at,
        expires_at: task.expires_at(),
        message: task.message.clone(),
        headers: task.headers.clone(),
        history: book.history(task.last_error.clone(), task.succeeded.clone()),
        ..ClaimedTask::new(lock, book.at, task.submitted_at)
    }
}

fn no_fence() -> Error {
    Error::Corrupt {
        key: "the largest fence given".to_owned(),
        detail: format!("no fence above {MAX_FENCE} is left"),
    }
}
