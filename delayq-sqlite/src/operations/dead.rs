//! Dead letters and purges: many tasks, a bounded number in each step.

use std::time::Duration;

use delayq_core::name::TaskId;
use delayq_core::operate::DeadFilter;
use delayq_core::state::TaskState;
use delayq_core::time::Timestamp;

use crate::error::Outcome;
use crate::rows::{TaskRow, TypeTasks, code, select_rows, signed};

/// Most tasks read in one step: some milliseconds of work, so that claims need not wait longer.
pub(crate) const STEP_TASKS: usize = 500;

const SELECT_DEAD: &str = "SELECT seq, at, id, last_error FROM tasks INDEXED BY tasks_place \
     WHERE type = ?1 AND state = 2 AND at < ?2 AND (at, id) > (?3, ?4) ORDER BY at, id LIMIT ?5";
const SELECT_SEQ: &str = select_rows!("WHERE seq = ?1");
const SELECT_STATE: &str =
    select_rows!("INDEXED BY tasks_place WHERE type = ?1 AND state = ?2 ORDER BY at, id LIMIT ?3");

/// What is done to dead tasks.
#[derive(Clone, Copy, Debug)]
pub(crate) enum DeadOperation {
    /// Scheduled again, each this long after the one before.
    Requeue(Duration),
    /// Removed.
    Discard,
}

/// Progress of a scan over dead tasks.
#[derive(Clone, Debug)]
pub(crate) struct Scan {
    /// The time of the first step: what dies later is left alone.
    started: Option<Timestamp>,
    /// When the next requeued task is due.
    due_at: Timestamp,
    /// The last task read: its time of death.
    after_at: Timestamp,
    /// The last task read: its id.
    after_id: String,
    /// Ids read, when ids were given.
    ids: usize,
    pub(crate) is_over: bool,
    /// The tasks changed so far.
    pub(crate) changed: Vec<TaskId>,
}

impl Default for Scan {
    fn default() -> Self {
        Self {
            started: None,
            due_at: Timestamp::ZERO,
            after_at: Timestamp::ZERO,
            after_id: String::new(),
            ids: 0,
            is_over: false,
            changed: Vec::new(),
        }
    }
}

/// A dead task that a step reads.
struct Dead {
    seq: i64,
    at: Timestamp,
    id: String,
    error: Option<String>,
}

/// One step of a scan.
pub(crate) fn scan(
    tasks: &mut TypeTasks<'_>,
    filter: &DeadFilter,
    operation: DeadOperation,
    mut scan: Scan,
) -> Outcome<Scan> {
    if scan.started.is_none() {
        scan.started = Some(tasks.now);
        scan.due_at = tasks.now;
    }
    match filter {
        DeadFilter::Ids(ids) => scan_ids(tasks, ids, operation, &mut scan)?,
        DeadFilter::Matching { limit, .. } if scan.changed.len() >= *limit => scan.is_over = true,
        DeadFilter::Matching { .. } => scan_matching(tasks, filter, operation, &mut scan)?,
    }
    Ok(scan)
}

fn scan_ids(
    tasks: &mut TypeTasks<'_>,
    ids: &[TaskId],
    operation: DeadOperation,
    scan: &mut Scan,
) -> Outcome<()> {
    let step = ids.iter().skip(scan.ids).take(STEP_TASKS);
    for id in step {
        scan.ids += 1;
        if let Some(row) = tasks.row(id)? {
            change_dead(tasks, &row, id, operation, scan)?;
        }
    }
    scan.is_over = scan.ids >= ids.len();
    Ok(())
}

fn scan_matching(
    tasks: &mut TypeTasks<'_>,
    filter: &DeadFilter,
    operation: DeadOperation,
    scan: &mut Scan,
) -> Outcome<()> {
    let DeadFilter::Matching {
        died_before,
        error_contains,
        limit,
    } = filter
    else {
        return Ok(());
    };
    let dead = dead_after(tasks, scan, *died_before)?;
    scan.is_over = dead.len() < STEP_TASKS;
    for task in dead {
        let error = task.error.as_deref();
        let contains = |text: &str| error.is_some_and(|error| error.contains(text));
        let matches = error_contains.as_deref().is_none_or(contains);
        scan.after_at = task.at;
        scan.after_id = task.id;
        if !matches {
            continue;
        }
        let row = tasks
            .sql(SELECT_SEQ)?
            .query_row([task.seq], TaskRow::read)?;
        // A damaged id cannot be returned to the caller; an audit with repair gives it a new one.
        if let Ok(id) = TaskId::new(&scan.after_id) {
            change_dead(tasks, &row, &id, operation, scan)?;
        }
        if scan.changed.len() >= *limit {
            scan.is_over = true;
            break;
        }
    }
    Ok(())
}

fn dead_after(
    tasks: &TypeTasks<'_>,
    scan: &Scan,
    died_before: Option<Timestamp>,
) -> Outcome<Vec<Dead>> {
    let started = scan.started.unwrap_or(tasks.now).as_millis();
    let before = died_before.map_or(i64::MAX, Timestamp::as_millis);
    let key = (
        tasks.row.id,
        before.min(started.saturating_add(1)),
        scan.after_at.as_millis(),
        scan.after_id.as_str(),
        signed(STEP_TASKS),
    );
    let mut select = tasks.sql(SELECT_DEAD)?;
    let dead = select.query_map(key, |row| {
        Ok(Dead {
            seq: row.get(0)?,
            at: Timestamp::from_millis(row.get(1)?),
            id: row.get(2)?,
            error: row.get(3)?,
        })
    })?;
    Ok(dead.collect::<rusqlite::Result<_>>()?)
}

/// Changes a task, if it is dead.
fn change_dead(
    tasks: &mut TypeTasks<'_>,
    row: &TaskRow,
    id: &TaskId,
    operation: DeadOperation,
    scan: &mut Scan,
) -> Outcome<()> {
    let Some(task) = row.live().filter(|task| task.state == TaskState::Dead) else {
        return Ok(());
    };
    match operation {
        DeadOperation::Discard => tasks.remove(row)?,
        DeadOperation::Requeue(interval) => {
            tasks.change(row, &task.requeued(scan.due_at))?;
            scan.due_at = scan.due_at.plus(interval);
        }
    }
    scan.changed.push(id.clone());
    Ok(())
}

/// One step of a purge.
pub(crate) struct Purged {
    /// How many tasks were removed, without those whose retention was over.
    pub(crate) tasks: u64,
    /// Whether all are gone.
    pub(crate) is_over: bool,
}

/// Removes some tasks in `state`.
pub(crate) fn purge(tasks: &mut TypeTasks<'_>, state: TaskState) -> Outcome<Purged> {
    let rows: Vec<TaskRow> = {
        let key = (tasks.row.id, code(state), signed(STEP_TASKS));
        let mut select = tasks.sql(SELECT_STATE)?;
        let rows = select.query_map(key, TaskRow::read)?;
        rows.collect::<rusqlite::Result<_>>()?
    };
    let mut purged = 0;
    for row in &rows {
        tasks.remove(row)?;
        purged += u64::from(!tasks.is_over(row));
    }
    Ok(Purged {
        tasks: purged,
        is_over: rows.len() < STEP_TASKS,
    })
}
