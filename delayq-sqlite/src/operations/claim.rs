//! Claim: all the work that is due, and when to call again.

use delayq_core::machine::{Bookkeeping, ExpiredLock, Outlook, Quota, lock_expired};
use delayq_core::name::{TaskId, TaskType};
use delayq_core::state::TaskState;
use delayq_core::store::{CLOCK_GUARD, ClaimEnd, ClaimRequest, Claimed, EndCause};
use delayq_core::task::ClaimedTask;
use delayq_core::time::{Reading, Timestamp};

use crate::error::Outcome;
use crate::rows::{TaskRecord, Tx, TypeTasks, code, select_records, sql_count};

const SELECT_REACHED: &str = select_records!(
    "INDEXED BY tasks_place WHERE type = ?1 AND state = ?2 AND at <= ?3 ORDER BY at, id LIMIT ?4"
);

/// The answer to a claim that has nothing to change: the type is paused or unknown, or nothing is
/// due.
pub(crate) fn peek(
    tx: &mut Tx<'_>,
    task_type: &TaskType,
    request: &ClaimRequest,
) -> Outcome<Option<Claimed>> {
    let reading = tx.reading();
    match tx.known(task_type)? {
        Some(tasks) => idle_claim(&tasks, request),
        None => Ok(Some(nothing(request, reading))),
    }
}

pub(crate) fn claim(
    tx: &mut Tx<'_>,
    task_type: &TaskType,
    request: &ClaimRequest,
) -> Outcome<Claimed> {
    let reading = tx.reading();
    let Some(mut tasks) = tx.known(task_type)? else {
        return Ok(nothing(request, reading));
    };
    match idle_claim(&tasks, request)? {
        Some(claimed) => Ok(claimed),
        None => claim_due(&mut tasks, request),
    }
}

/// The answer to a claim of a type that nobody has submitted to.
fn nothing(request: &ClaimRequest, reading: Reading) -> Claimed {
    let now = reading.now.min(request.caller_now.plus(CLOCK_GUARD));
    Claimed::nothing(now, reading.now)
}

/// The answer to a claim that finds nothing.
fn nothing_of(tasks: &TypeTasks<'_>, request: &ClaimRequest) -> Claimed {
    let mut claimed = nothing(request, tasks.reading);
    claimed.high_water = tasks.row.fence;
    claimed
}

fn quota(tasks: &TypeTasks<'_>, request: &ClaimRequest) -> Quota {
    Quota::new(
        request,
        tasks.row.limits.tat,
        tasks.reading,
        tasks.row.running(),
    )
}

fn outlook(tasks: &TypeTasks<'_>, quota: &Quota, now: Timestamp) -> Outcome<Outlook> {
    Ok(Outlook {
        reading: tasks.reading,
        now,
        due: tasks.first(TaskState::Scheduled)?,
        lock: tasks.first(TaskState::Running)?,
        is_full: quota.is_full(tasks.row.running()),
        again_at: quota.again_at(),
    })
}

fn idle_claim(tasks: &TypeTasks<'_>, request: &ClaimRequest) -> Outcome<Option<Claimed>> {
    let mut claimed = nothing_of(tasks, request);
    if let Some(until) = tasks.row.pause_at(tasks.now) {
        let has_end = until < Timestamp::MAX;
        claimed.next_in = has_end.then(|| until.since(tasks.now));
        return Ok(Some(claimed));
    }
    let quota = quota(tasks, request);
    let outlook = outlook(tasks, &quota, claimed.now)?;
    claimed.next_in = outlook.next_in();
    let is_held_back = outlook.is_held_back();
    let is_due = outlook.due.is_some_and(|due| due <= claimed.now) && !is_held_back;
    let is_expired = outlook.lock.is_some_and(|lock| lock <= tasks.now);
    let may_start = request.limit > 0 && outlook.again_at.is_none();
    let is_set_back = quota
        .rate
        .is_some_and(|rate| rate.tat() < tasks.row.limits.tat);
    let has_to_note = is_set_back || (is_held_back && !tasks.row.limits.held_back);
    let is_idle = !has_to_note && !(may_start && (is_due || is_expired));
    Ok(is_idle.then_some(claimed))
}

fn claim_due(tasks: &mut TypeTasks<'_>, request: &ClaimRequest) -> Outcome<Claimed> {
    let mut claimed = nothing_of(tasks, request);
    let mut quota = quota(tasks, request);
    let expired = reached(tasks, TaskState::Running, tasks.now, quota.limit)?;
    let rest = quota.due(expired.len());
    let due = reached(tasks, TaskState::Scheduled, claimed.now, rest)?;
    for record in expired {
        take_over(tasks, record, request, &mut claimed)?;
    }
    for record in due {
        start(tasks, record, request, &mut claimed)?;
    }
    if let Some(tat) = quota.take(claimed.tasks.len()) {
        tasks.row.limits.tat = tat;
        tasks.row.touch();
    }
    let outlook = outlook(tasks, &quota, claimed.now)?;
    if outlook.is_held_back() {
        tasks.row.limits.held_back = true;
        tasks.row.touch();
    }
    claimed.next_in = outlook.next_in();
    Ok(claimed)
}

/// Up to `limit` tasks in `state` whose time is not after `now`, in order.
fn reached(
    tasks: &TypeTasks<'_>,
    state: TaskState,
    now: Timestamp,
    limit: usize,
) -> Outcome<Vec<TaskRecord>> {
    let key = (tasks.row.id, code(state), now.as_millis(), sql_count(limit));
    tasks.records(SELECT_REACHED, key, limit)
}

/// Takes an expired lock away. The task is started again, or ended for one of two causes.
fn take_over(
    tasks: &mut TypeTasks<'_>,
    record: TaskRecord,
    request: &ClaimRequest,
    claimed: &mut Claimed,
) -> Outcome<()> {
    let (Some(task), Ok(id)) = (record.row.live(), TaskId::new(&record.id)) else {
        return bury(tasks, &record, claimed);
    };
    match lock_expired(task, request.max_lock_expiries, tasks.now) {
        ExpiredLock::Due(task) => start_as(tasks, task, record, request, claimed),
        ExpiredLock::Cancelled(ended) => {
            tasks.end(&record.row, ended)?;
            claimed.ended.push(ClaimEnd::new(id, EndCause::Cancelled));
            Ok(())
        }
        ExpiredLock::Poison(task, error) => {
            tasks.change_texts(&record.row, &task, Some(&error), None)?;
            claimed.ended.push(ClaimEnd::new(id, EndCause::Poison));
            Ok(())
        }
    }
}

/// Locks a due task, unless it is damaged or its expiry has passed.
fn start(
    tasks: &mut TypeTasks<'_>,
    record: TaskRecord,
    request: &ClaimRequest,
    claimed: &mut Claimed,
) -> Outcome<()> {
    match record.row.live() {
        Some(task) => start_as(tasks, *task, record, request, claimed),
        None => bury(tasks, &record, claimed),
    }
}

/// Locks a task whose bookkeeping is `task` now: not as stored, if its lock has expired.
fn start_as(
    tasks: &mut TypeTasks<'_>,
    task: Bookkeeping,
    record: TaskRecord,
    request: &ClaimRequest,
    claimed: &mut Claimed,
) -> Outcome<()> {
    let Ok(id) = TaskId::new(&record.id) else {
        return bury(tasks, &record, claimed);
    };
    if let Some(damage) = record.damage() {
        let dead = task.died(tasks.now);
        tasks.change_texts(&record.row, &dead, Some(&damage), None)?;
        claimed.ended.push(ClaimEnd::new(id, EndCause::Corrupt));
        return Ok(());
    }
    let expires_at = record.expires_at(&task);
    if expires_at.is_some_and(|expires_at| expires_at <= claimed.now) {
        let ended = task.ended(TaskState::Expired, tasks.now);
        tasks.end(&record.row, ended)?;
        claimed.ended.push(ClaimEnd::new(id, EndCause::Expired));
        return Ok(());
    }
    let locked = task.locked(tasks.next_fence()?, tasks.now.plus(request.lock_for));
    tasks.lock(&record.row, &locked)?;
    claimed
        .tasks
        .push(record.into_claimed(id, &locked, task.at));
    Ok(())
}

/// Parks a task whose id or state is damaged.
fn bury(tasks: &mut TypeTasks<'_>, record: &TaskRecord, claimed: &mut Claimed) -> Outcome<()> {
    let error = record.fatal_damage().unwrap_or_default();
    let id = tasks.bury(record, &error)?;
    claimed.ended.push(ClaimEnd::new(id, EndCause::Corrupt));
    Ok(())
}

/// Puts a task back whose claim was not answered: as if it had not been claimed, but for its fence.
pub(crate) fn give_back(tasks: &mut TypeTasks<'_>, claimed: &ClaimedTask) -> Outcome<()> {
    let row = tasks.row(&claimed.lock.id)?;
    let Some((row, task)) = row.as_ref().and_then(|row| Some((row, *row.live()?))) else {
        return Ok(());
    };
    if !task.is_held_by(claimed.lock.fence) {
        return Ok(());
    }
    if task.cancel_requested {
        return tasks.end(row, task.ended(TaskState::Cancelled, tasks.now));
    }
    tasks.change(row, &task.put_back(claimed.due_at))
}
