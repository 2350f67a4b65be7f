//! Claim: does all the work that is due, and says when to call again.

use delayq_core::error::Error;
use delayq_core::machine::{self, Claiming, MAX_FENCE, Outlook, Quota, Record};
use delayq_core::name::{TaskId, TaskType};
use delayq_core::state::TaskState;
use delayq_core::store::{CLOCK_GUARD, ClaimEnd, ClaimRequest, Claimed, EndCause};
use delayq_core::task::ClaimedTask;
use delayq_core::time::Timestamp;

use crate::error::Outcome;
use crate::rows;
use crate::rows::{
    TaskRecord, Texts, Tx, TypeTasks, code, die, end_task, refuse_snapshot, select_records, signed,
};

const SELECT_REACHED: &str = select_records!(
    "INDEXED BY tasks_place WHERE type = ?1 AND state = ?2 AND at <= ?3 ORDER BY at, id LIMIT ?4"
);

/// Claims due tasks. A snapshot is enough for a claim that changes nothing: the type is paused or
/// unknown, or nothing is due.
pub(crate) fn claim(
    tx: &mut Tx<'_>,
    task_type: &TaskType,
    request: &ClaimRequest,
) -> Outcome<Claimed> {
    let is_snapshot = tx.is_snapshot;
    let mut tasks = tx.known(task_type)?;
    let store_now = tasks.now;
    let tasks = &mut tasks;
    let now = store_now.min(request.caller_now.plus(CLOCK_GUARD));
    let mut claimed = Claimed::nothing(now, store_now);
    claimed.high_water = tasks.row.fence;
    if let Some(until) = tasks.row.pause_at(store_now) {
        let has_end = until < Timestamp::MAX;
        claimed.next_in = has_end.then(|| until.since(store_now));
        return Ok(claimed);
    }
    let request = &request.clone().under(tasks.row.fleet);
    let mut quota = Quota::new(request, tasks.row.tat, tasks.reading, tasks.row.running());
    let before = outlook(tasks, &quota, now)?;
    if is_idle(tasks, request, &quota, &before) {
        claimed.next_in = before.next_in();
        return Ok(claimed);
    }
    refuse_snapshot(is_snapshot)?;
    let expired = reached(tasks, TaskState::Running, store_now, quota.limit)?;
    let rest = quota.due(expired.len());
    let due = reached(tasks, TaskState::Scheduled, now, rest)?;
    for record in expired.into_iter().chain(due) {
        take(tasks, record, request, &mut claimed)?;
    }
    if let Some(tat) = quota.take(claimed.tasks.len()) {
        tasks.row.tat = tat;
        tasks.row.touch();
    }
    let after = outlook(tasks, &quota, now)?;
    if after.is_held_back() {
        tasks.row.held_back = true;
        tasks.row.touch();
    }
    claimed.next_in = after.next_in();
    Ok(claimed)
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

/// True if a claim would change nothing.
fn is_idle(
    tasks: &TypeTasks<'_>,
    request: &ClaimRequest,
    quota: &Quota,
    outlook: &Outlook,
) -> bool {
    let is_held_back = outlook.is_held_back();
    let is_due = outlook.due.is_some_and(|due| due <= outlook.now) && !is_held_back;
    let is_expired = outlook.lock.is_some_and(|lock| lock <= tasks.now);
    let may_start = request.limit > 0 && outlook.again_at.is_none();
    let is_set_back = quota.rate.is_some_and(|rate| rate.tat() < tasks.row.tat);
    let has_to_note = is_set_back || (is_held_back && !tasks.row.held_back);
    !has_to_note && !(may_start && (is_due || is_expired))
}

/// Up to `limit` tasks in `state` with a time up to `now`, in order.
fn reached(
    tasks: &TypeTasks<'_>,
    state: TaskState,
    now: Timestamp,
    limit: usize,
) -> Outcome<Vec<TaskRecord>> {
    let key = (tasks.row.id, code(state), now.as_millis(), signed(limit));
    tasks.records(SELECT_REACHED, key, limit)
}

/// Locks a task, or ends it.
fn take(
    tasks: &mut TypeTasks<'_>,
    record: TaskRecord,
    request: &ClaimRequest,
    claimed: &mut Claimed,
) -> Outcome<()> {
    let (Some(task), Ok(id)) = (record.live(), TaskId::new(&record.id)) else {
        return bury(tasks, &record, claimed);
    };
    let said = Record {
        holder: record.holder().map(str::to_owned),
        expires_at: record.expires_at(&task),
        damage: record.damage(),
    };
    let claiming = machine::claim(&task, said, tasks.row.fence, request, claimed);
    let cause = match claiming.ok_or_else(|| no_fence(tasks))? {
        Claiming::Started { task, due_at } => {
            tasks.row.raise_fence(task.fence);
            tasks.lock(&record, &task, request.holder.as_ref())?;
            claimed.tasks.push(record.into_claimed(id, &task, due_at));
            return Ok(());
        }
        Claiming::Ended(ended, cause) => {
            end_task(tasks, &record.row, ended)?;
            cause
        }
        Claiming::Dead(task, cause, error) => {
            tasks.row.totals.count(task.state);
            let texts = Texts {
                error: Some(&error),
                ..Texts::default()
            };
            die(tasks, &record.row, &task, &texts)?;
            cause
        }
    };
    claimed.ended.push(ClaimEnd::new(id, cause));
    Ok(())
}

fn no_fence(tasks: &TypeTasks<'_>) -> Error {
    Error::corrupt(
        format!(
            "types, row {}, column fence",
            tasks.row.id.unwrap_or_default()
        ),
        format!("no fence above {MAX_FENCE} is left: restore a backup"),
    )
}

/// Moves a task with a damaged id or state to dead.
fn bury(tasks: &mut TypeTasks<'_>, record: &TaskRecord, claimed: &mut Claimed) -> Outcome<()> {
    let error = record.fatal_damage().unwrap_or_default();
    let id = rows::bury(tasks, record, &error)?;
    tasks.row.totals.count(TaskState::Dead);
    claimed.ended.push(ClaimEnd::new(id, EndCause::Corrupt));
    Ok(())
}

/// Puts a task back if its claim was not answered, as if it had not been claimed, except for its
/// fence.
pub(crate) fn give_back(tasks: &mut TypeTasks<'_>, claimed: &ClaimedTask) -> Outcome<()> {
    let row = tasks.row(&claimed.lock.id)?;
    let Some((row, task)) = row.as_ref().and_then(|row| Some((row, *row.live()?))) else {
        return Ok(());
    };
    if !task.is_held_by(claimed.lock.fence) {
        return Ok(());
    }
    if task.cancel_requested {
        return end_task(tasks, row, task.ended(TaskState::Cancelled, tasks.now));
    }
    tasks.change(row, &task.put_back(claimed.due_at))
}
