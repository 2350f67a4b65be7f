//! Queries: find, lists and counts.

use std::collections::HashMap;

use delayq_core::history::KeptMessage;
use delayq_core::log_limit::LogLimit;
use delayq_core::machine::Gate;
use delayq_core::name::{TaskId, TaskType};
use delayq_core::operate::{Cursor, Page, TypeStats};
use delayq_core::state::TaskState;
use delayq_core::store::MAX_BATCH;
use delayq_core::task::TaskInfo;
use delayq_core::time::{Timestamp, duration_ms};

use crate::error::Outcome;
use crate::rows::{FollowUp, ROWS_BYTES, TaskRecord, Tx, TypeTasks, code, select_records, signed};

/// Limit on log lines about damaged tasks and types: a page of a listing can have a hundred.
static DAMAGED: LogLimit = LogLimit::new();

const SELECT_PAGE: &str = select_records!(
    "INDEXED BY tasks_place WHERE type = ?1 AND state = ?2 AND (at, id) > (?3, ?4) \
     ORDER BY at, id LIMIT ?5"
);
const SELECT_ENDED: &str = select_records!(
    "INDEXED BY tasks_place WHERE type = ?1 AND state = ?2 AND (at, id) < (?3, ?4) AND at > ?6 \
     ORDER BY at DESC, id DESC LIMIT ?5"
);
const COUNT_DUE: &str = "SELECT count(*) FROM tasks INDEXED BY tasks_place \
     WHERE type = ?1 AND state = 0 AND at <= ?2";
const COUNT_PARTS: &str = "SELECT (at - ?2) * ?4 / (?3 - ?2), count(*) \
     FROM tasks INDEXED BY tasks_place \
     WHERE type = ?1 AND state = 0 AND at >= ?2 AND at < ?3 GROUP BY 1";
const SELECT_TYPES: &str =
    "SELECT name FROM types WHERE namespace = ?1 AND listed = 1 ORDER BY name";

/// The listed types, sorted.
pub(crate) fn types(tx: &Tx<'_>) -> Outcome<Vec<TaskType>> {
    let mut types = Vec::new();
    for name in tx.names(SELECT_TYPES)? {
        match TaskType::new(&name) {
            Ok(task_type) => types.push(task_type),
            // The other types are served nevertheless.
            Err(error) => {
                if let Some(left_out) = DAMAGED.admit() {
                    tracing::error!(%error, left_out, "a stored task type is damaged");
                }
            }
        }
    }
    Ok(types)
}

pub(crate) fn stats(tasks: &TypeTasks<'_>) -> Outcome<TypeStats> {
    let key = (tasks.row.id, tasks.now.as_millis());
    let due: i64 = tasks.sql(COUNT_DUE)?.query_row(key, |row| row.get(0))?;
    let mut stats = TypeStats::default();
    stats.now = tasks.now;
    stats.scheduled = tasks.row.count(TaskState::Scheduled);
    stats.due = u64::try_from(due).unwrap_or(0);
    stats.running = tasks.row.count(TaskState::Running);
    stats.dead = tasks.row.count(TaskState::Dead);
    stats.next_due = tasks.first(TaskState::Scheduled)?;
    stats.paused_until = tasks.row.pause_at(tasks.now);
    stats.max_pending = tasks.row.max_pending;
    stats.fleet_concurrency = tasks.row.fleet.concurrency;
    stats.fleet_rate = tasks.row.fleet.rate;
    stats.history = tasks.row.history.map(KeptMessage::limit);
    stats.refused = tasks.row.refused;
    stats.totals = tasks.row.totals;
    stats.remembered = tasks.row.count(TaskState::Done);
    let retained = tasks.now.minus(tasks.retention);
    stats.remembered_since = Some(retained.max(tasks.row.forgotten));
    Ok(stats)
}

pub(crate) fn find(tasks: &TypeTasks<'_>, id: &TaskId) -> Outcome<Option<TaskInfo>> {
    let record = tasks.record(id)?;
    let record = record.filter(|record| !tasks.is_over(&record.row));
    let mut info = record.and_then(|record| record.into_info(&gate(tasks)));
    if let Some(info) = &mut info {
        info.again_at = again_at(tasks, info)?;
    }
    Ok(info)
}

/// The due time of the request that waits for the end of this task.
fn again_at(tasks: &TypeTasks<'_>, info: &TaskInfo) -> Outcome<Option<Timestamp>> {
    if !matches!(info.state, TaskState::Scheduled | TaskState::Running) {
        return Ok(None);
    }
    let waiting = FollowUp::of(tasks, &info.id)?;
    Ok(waiting.map(|waiting| waiting.due_at))
}

pub(crate) fn list(
    tasks: &TypeTasks<'_>,
    state: TaskState,
    cursor: Option<&Cursor>,
    limit: usize,
) -> Outcome<Page> {
    let cursor = cursor.map(|cursor| (cursor.at.as_millis(), cursor.id.as_str()));
    let limit = limit.clamp(1, MAX_BATCH);
    // Reads one more than asked for, to know if there is a next page.
    let most = limit.saturating_add(1);
    let mut records = if state.is_ended() {
        let (at, id) = cursor.unwrap_or((i64::MAX, ""));
        let over = tasks
            .now
            .as_millis()
            .saturating_sub(duration_ms(tasks.retention));
        let key = (tasks.row.id, code(state), at, id, signed(most), over);
        tasks.records(SELECT_ENDED, key, most)?
    } else {
        let (at, id) = cursor.unwrap_or((-1, ""));
        let key = (tasks.row.id, code(state), at, id, signed(most));
        tasks.records(SELECT_PAGE, key, most)?
    };
    let bytes: usize = records.iter().map(|record| record.message.len()).sum();
    let has_more = records.len() > limit || bytes >= ROWS_BYTES;
    records.truncate(limit);
    let mut page = Page::default();
    let gate = gate(tasks);
    let shown = |record| shown(record, &gate);
    page.tasks = records.into_iter().filter_map(shown).collect();
    for info in &mut page.tasks {
        info.again_at = again_at(tasks, info)?;
    }
    let last = page.tasks.last().filter(|_| has_more);
    page.next = last.map(|task| Cursor::new(task.at, task.id.clone()));
    Ok(page)
}

pub(crate) fn due_histogram(
    tasks: &TypeTasks<'_>,
    from: Timestamp,
    to: Timestamp,
    steps: usize,
) -> Outcome<Vec<u64>> {
    let (from, to) = (from.as_millis(), to.as_millis());
    let key = (tasks.row.id, from, to, signed(steps));
    let parts = tasks.query(COUNT_PARTS, key, |row| Ok((row.get(0)?, row.get(1)?)))?;
    let parts: HashMap<i64, i64> = parts.into_iter().collect();
    let count = |part| parts.get(&part).map_or(0, |tasks| tasks.unsigned_abs());
    Ok((0..signed(steps)).map(count).collect())
}

/// The facts that let due tasks of the type start, or hold them back.
fn gate(tasks: &TypeTasks<'_>) -> Gate {
    Gate {
        reading: tasks.reading,
        paused_until: tasks.row.pause_at(tasks.now),
        running: tasks.row.running(),
        held_back: tasks.row.held_back,
        fleet: tasks.row.fleet,
        tat: tasks.row.tat,
    }
}

/// A task in the form for a listing; `None` if its id is damaged, as it cannot be shown.
fn shown(record: TaskRecord, gate: &Gate) -> Option<TaskInfo> {
    let seq = record.row.seq;
    let info = record.into_info(gate);
    if info.is_none()
        && let Some(left_out) = DAMAGED.admit()
    {
        tracing::error!(
            seq,
            left_out,
            "a stored task is damaged: run an audit with repair"
        );
    }
    info
}
