//! Dead tasks and purges: many tasks, a limited number in each step.

use std::collections::HashSet;
use std::time::Duration;

use delayq_core::name::TaskId;
use delayq_core::operate::DeadFilter;
use delayq_core::state::TaskState;
use delayq_core::time::Timestamp;

use crate::error::Outcome;
use crate::rows::{
    FollowUp, TaskRecord, TaskRow, TypeTasks, code, record_removal, select_records, select_rows,
    signed,
};

/// Maximum number of tasks read in one step: some milliseconds of work, so that claims need not
/// wait longer.
pub(crate) const STEP_TASKS: usize = 500;

const SELECT_ID: &str = select_records!("WHERE type = ?1 AND id = ?2");
const SELECT_DEAD: &str = select_records!(
    "INDEXED BY tasks_place WHERE type = ?1 AND state = 2 AND at < ?2 AND (at, id) > (?3, ?4) \
     ORDER BY at, id LIMIT ?5"
);
const PURGED: &str =
    select_rows!("INDEXED BY tasks_place WHERE type = ?1 AND state = ?2 ORDER BY at, id LIMIT ?3");
const PURGE_BODIES: &str = "DELETE FROM bodies WHERE seq IN (SELECT seq FROM tasks \
     INDEXED BY tasks_place WHERE type = ?1 AND state = ?2 ORDER BY at, id LIMIT ?3)";
const PURGE: &str = "DELETE FROM tasks WHERE seq IN (SELECT seq FROM tasks \
     INDEXED BY tasks_place WHERE type = ?1 AND state = ?2 ORDER BY at, id LIMIT ?3) RETURNING at, id";

/// The operation on dead tasks.
#[derive(Clone, Copy, Debug)]
pub(crate) enum DeadOperation {
    /// Schedule them again, each this long after the one before.
    Requeue(Duration),
    /// Remove them.
    Discard,
}

/// Progress of a scan over dead tasks.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scan {
    /// The time of the first step; tasks that die later are left alone.
    started: Option<Timestamp>,
    /// The last task read: its time of death.
    after_at: Timestamp,
    /// The last task read: its id.
    after_id: String,
    /// Number of ids read, if ids were given.
    ids: usize,
    pub(crate) is_over: bool,
    /// The tasks changed so far.
    pub(crate) changed: Vec<TaskId>,
}

/// One step of a scan.
pub(crate) fn scan(
    tasks: &mut TypeTasks<'_>,
    filter: &DeadFilter,
    operation: DeadOperation,
    mut scan: Scan,
) -> Outcome<Scan> {
    let started = *scan.started.get_or_insert(tasks.now);
    let (found, text, limit) = match filter {
        DeadFilter::Ids(ids) => (read_ids(tasks, ids, &mut scan)?, None, usize::MAX),
        DeadFilter::Matching {
            died_before,
            error_contains,
            limit,
        } => {
            let died = died_before.map_or(i64::MAX, Timestamp::as_millis);
            let before = died.min(started.as_millis().saturating_add(1));
            let found = read_dead(tasks, before, &mut scan)?;
            (found, error_contains.as_deref(), *limit)
        }
    };
    for record in found {
        if scan.changed.len() >= limit {
            scan.is_over = true;
            break;
        }
        let has = |text| {
            record
                .last_error
                .as_ref()
                .is_some_and(|error| error.contains(text))
        };
        let task = record.row.live();
        let task = task.filter(|task| task.state == TaskState::Dead && text.is_none_or(has));
        // A damaged id cannot be returned to the caller; an audit with repair gives the task a new
        // one.
        let (Some(task), Ok(id)) = (task, TaskId::new(&record.id)) else {
            continue;
        };
        match operation {
            DeadOperation::Discard => {
                record_removal(tasks, &record.row)?;
                tasks.remove(&record.row)?;
            }
            DeadOperation::Requeue(interval) => {
                let before = u32::try_from(scan.changed.len()).unwrap_or(u32::MAX);
                let due_at = started.plus(interval.saturating_mul(before));
                tasks.change(&record.row, &task.requeued(due_at))?;
            }
        }
        scan.changed.push(id);
    }
    Ok(scan)
}

/// The next tasks with these ids, without duplicates; their large messages are not read.
fn read_ids(tasks: &TypeTasks<'_>, ids: &[TaskId], scan: &mut Scan) -> Outcome<Vec<TaskRecord>> {
    let mut once = HashSet::new();
    let mut found = Vec::new();
    for id in ids.iter().skip(scan.ids).take(STEP_TASKS) {
        if once.insert(id) {
            let key = (tasks.row.id, id.as_str());
            found.append(&mut tasks.query(SELECT_ID, key, TaskRecord::read)?);
        }
    }
    scan.ids += STEP_TASKS;
    scan.is_over = scan.ids >= ids.len();
    Ok(found)
}

/// The next dead tasks; their large messages are not read.
fn read_dead(tasks: &TypeTasks<'_>, before: i64, scan: &mut Scan) -> Outcome<Vec<TaskRecord>> {
    let (after, id) = (scan.after_at.as_millis(), scan.after_id.as_str());
    let key = (tasks.row.id, before, after, id, signed(STEP_TASKS));
    let found = tasks.query(SELECT_DEAD, key, TaskRecord::read)?;
    scan.is_over = found.len() < STEP_TASKS;
    if let Some(last) = found.last() {
        scan.after_at = last.row.at();
        scan.after_id.clone_from(&last.id);
    }
    Ok(found)
}

/// Removes some tasks in `state`. Returns their number, without those whose retention was over;
/// `None` once there are none left.
pub(crate) fn purge(tasks: &mut TypeTasks<'_>, state: TaskState) -> Outcome<Option<u64>> {
    let key = (tasks.row.id, code(state), signed(STEP_TASKS));
    if !state.is_ended() && tasks.row.history.is_some() {
        for row in tasks.query(PURGED, key, TaskRow::read)? {
            record_removal(tasks, &row)?;
        }
    }
    tasks.execute(PURGE_BODIES, key)?;
    let purged: Vec<(i64, String)> =
        tasks.query(PURGE, key, |row| Ok((row.get(0)?, row.get(1)?)))?;
    tasks.row.add(state, -signed(purged.len()));
    FollowUp::forget_all(tasks, purged.iter().map(|(_, id)| id))?;
    let is_over =
        |at: i64| state.is_ended() && Timestamp::from_millis(at).plus(tasks.retention) <= tasks.now;
    if purged.is_empty() {
        return Ok(None);
    }
    let counted = purged.iter().filter(|(at, _)| !is_over(*at)).count();
    Ok(Some(counted as u64))
}
