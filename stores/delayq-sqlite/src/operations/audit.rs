//! Audit: checks that a type is sound. Compares every row with its checksum, its lock and both
//! indexes, the indexes with the rows, and the counters with a count.

use std::collections::HashSet;

use delayq_core::machine::{Bookkeeping, Ended, MAX_FENCE, Settled, next_fence};
use delayq_core::name::TaskId;
use delayq_core::operate::{AuditReport, Problem};
use delayq_core::state::TaskState;

use crate::error::Outcome;
use crate::rows::{
    FollowUp, Status, TaskRecord, TypeTasks, bury, code, end_task, is_time, select_records, signed,
};

/// Maximum number of rows read in one step: some milliseconds of work.
const STEP_ROWS: usize = 256;

/// Maximum number of problems in one report; further ones are mended without being listed.
const MAX_PROBLEMS: usize = 1_000;

const SELECT_RECORDS: &str =
    select_records!("INDEXED BY tasks_id WHERE type = ?1 AND id > ?2 ORDER BY id LIMIT ?3");
const SELECT_LARGEST_FENCE: &str = "SELECT max(0, coalesce(max(fence), 0), \
     coalesce(max(settled), 0)) FROM tasks WHERE type = ?1 AND fence <= ?2 AND settled <= ?2";
const SELECT_INDEXED: &str = "SELECT at, EXISTS \
     (SELECT 1 FROM tasks AS entry INDEXED BY tasks_place \
     WHERE entry.type = task.type AND entry.state = task.state AND entry.at = task.at \
     AND entry.id = task.id AND entry.seq = task.seq) FROM tasks AS task WHERE seq = ?1";
const SELECT_PLACES: &str = "SELECT state, at, id, seq FROM tasks INDEXED BY tasks_place \
     WHERE type = ?1 AND (state, at, id) > (?2, ?3, ?4) ORDER BY state, at, id LIMIT ?5";
const SELECT_TASK: &str = "SELECT 1 FROM tasks NOT INDEXED \
     WHERE seq = ?1 AND type = ?2 AND state = ?3 AND at = ?4 AND id = ?5";
const COUNT: &str = "SELECT count(*) FROM tasks INDEXED BY tasks_place \
     WHERE type = ?1 AND state BETWEEN ?2 AND ?3";
const SELECT_ORPHANS: &str = "SELECT seq FROM bodies \
     WHERE NOT EXISTS (SELECT 1 FROM tasks WHERE tasks.seq = bodies.seq) LIMIT ?1";
const DELETE_BODY: &str = "DELETE FROM bodies WHERE seq = ?1";

/// Rebuilds the indexes from the rows.
pub(crate) const REINDEX: &str = "REINDEX tasks";

/// Counts every type again.
pub(crate) const RECOUNT: &str = "UPDATE types SET \
     scheduled = (SELECT count(*) FROM tasks WHERE type = types.id AND state = 0), \
     running = (SELECT count(*) FROM tasks WHERE type = types.id AND state = 1), \
     dead = (SELECT count(*) FROM tasks WHERE type = types.id AND state = 2), \
     ended = (SELECT count(*) FROM tasks WHERE type = types.id AND state BETWEEN 3 AND 5)";

/// Progress of an audit: first a pass over everything without changes, then, if allowed, a second
/// one to mend.
#[derive(Clone, Debug, Default)]
pub(crate) struct Audit {
    stage: Stage,
    /// True if it mends the damage it finds.
    pub(crate) repairs: bool,
    pub(crate) is_over: bool,
    pub(crate) report: AuditReport,
    /// True if an index does not agree with the rows.
    has_bad_index: bool,
}

#[derive(Clone, Debug, Default)]
enum Stage {
    /// Check the row of the type and, if they are damaged, rebuild the indexes.
    #[default]
    Type,
    /// Check the rows after this id.
    Rows { after: String },
    /// Check the entries of the index of places after this one.
    Places { after: IndexEntry },
    /// Check the counters.
    Counts,
    /// Check the requests to run again with ids after this one.
    FollowUps { after: String },
}

/// An entry of the index of places.
#[derive(Clone, Debug)]
struct IndexEntry {
    state: i64,
    at: i64,
    id: String,
}

impl Audit {
    fn add(&mut self, id: &str, what: impl Into<String>) {
        if self.report.problems.len() < MAX_PROBLEMS {
            let problem = Problem::new(id, what, self.repairs);
            self.report.problems.push(problem);
        }
    }

    /// The second pass of an audit that has found something. It rebuilds bad indexes before it
    /// reads the rows, so it only finds the rest.
    pub(crate) fn to_repair(&self) -> Self {
        Self {
            repairs: true,
            has_bad_index: self.has_bad_index,
            ..Self::default()
        }
    }

    /// The report of the first pass, after the second one, `repair`.
    pub(crate) fn repaired_by(self, repair: Self) -> AuditReport {
        let mut report = self.report;
        for problem in &mut report.problems {
            problem.repaired = true;
        }
        let listed: HashSet<_> = report.problems.iter().map(|p| p.id.clone()).collect();
        let new = repair.report.problems.into_iter();
        let new = new.filter(|problem| !listed.contains(&problem.id));
        report.problems.extend(new.collect::<Vec<_>>());
        report
    }
}

/// One step of an audit.
pub(crate) fn audit(tasks: &mut TypeTasks<'_>, mut audit: Audit) -> Outcome<Audit> {
    match std::mem::take(&mut audit.stage) {
        Stage::Type => {
            audit_type(tasks, &mut audit)?;
            if audit.repairs && audit.has_bad_index {
                tasks.execute(REINDEX, [])?;
            }
            audit.stage = Stage::Rows {
                after: String::new(),
            };
        }
        Stage::Rows { after } => audit_rows(tasks, &after, &mut audit)?,
        Stage::Places { after } => audit_places(tasks, &after, &mut audit)?,
        Stage::Counts => {
            audit_counts(tasks, &mut audit)?;
            audit_bodies(tasks, &mut audit)?;
            audit.stage = Stage::FollowUps {
                after: String::new(),
            };
        }
        Stage::FollowUps { after } => audit_follow_ups(tasks, &after, &mut audit)?,
    }
    Ok(audit)
}

/// Checks the row of the type. To mend a fence it reads every task of the type, which takes a
/// second per million.
fn audit_type(tasks: &mut TypeTasks<'_>, audit: &mut Audit) -> Outcome<()> {
    let Some(problem) = tasks.row.problem() else {
        return Ok(());
    };
    if audit.repairs {
        let key = (tasks.row.id, MAX_FENCE.cast_signed());
        let mut select = tasks.sql(SELECT_LARGEST_FENCE)?;
        let largest: i64 = select.query_row(key, |row| row.get(0))?;
        let next = next_fence(largest.cast_unsigned(), tasks.now);
        tasks.row.mend(next.unwrap_or(MAX_FENCE));
    }
    audit.add("", problem);
    Ok(())
}

fn audit_rows(tasks: &mut TypeTasks<'_>, after: &str, audit: &mut Audit) -> Outcome<()> {
    let key = (tasks.row.id, after, signed(STEP_ROWS));
    let records = tasks.records(SELECT_RECORDS, key, STEP_ROWS)?;
    audit.stage = match records.last() {
        Some(last) => Stage::Rows {
            after: last.id.clone(),
        },
        None => Stage::Places {
            after: IndexEntry {
                state: -1,
                at: 0,
                id: String::new(),
            },
        },
    };
    for record in records {
        if !tasks.is_over(&record.row) {
            audit.report.checked += 1;
            audit_row(tasks, &record, audit)?;
        }
    }
    Ok(())
}

fn audit_row(tasks: &mut TypeTasks<'_>, record: &TaskRecord, audit: &mut Audit) -> Outcome<()> {
    let mut select = tasks.sql(SELECT_INDEXED)?;
    let (at, is_indexed): (i64, bool) =
        select.query_row([record.row.seq], |row| Ok((row.get(0)?, row.get(1)?)))?;
    if !is_indexed {
        audit.has_bad_index = true;
        audit.add(&record.id, "has lost its place in the index");
    }
    if let Some(what) = record.fatal_damage() {
        if audit.repairs {
            bury(tasks, record, &what)?;
        }
        audit.add(&record.id, what);
        return Ok(());
    }
    if let Some(what) = wrong_lock(tasks, record, at) {
        if audit.repairs {
            reset(tasks, record, is_time(at))?;
        }
        audit.add(&record.id, what);
    }
    Ok(())
}

/// The problem with the lock or the time of a task whose record is sound.
fn wrong_lock(tasks: &TypeTasks<'_>, record: &TaskRecord, at: i64) -> Option<String> {
    if !is_time(at) {
        return Some(format!("its time {at} is no time"));
    }
    let (fence, settled) = match record.row.status {
        Status::Unknown => return None,
        Status::Ended(ended) => (0, ended.settled.fence),
        Status::Live(task) => {
            let is_running = task.state == TaskState::Running;
            if is_running && task.fence == 0 {
                return Some("runs without a lock".to_owned());
            }
            if !is_running && (task.fence != 0 || task.cancel_requested) {
                return Some("has a lock or a cancel request and does not run".to_owned());
            }
            (task.fence, task.settled.fence)
        }
    };
    let fence = fence.max(settled);
    if fence > MAX_FENCE {
        return Some(format!("its fence {} is no fence", fence.cast_signed()));
    }
    (fence > tasks.row.fence).then(|| format!("its fence {fence} is above the largest one given"))
}

/// Gives a task a valid lock and time: without a usable lock it is scheduled. If a time was lost,
/// nothing starts before the present time. No fence is issued twice.
fn reset(tasks: &mut TypeTasks<'_>, record: &TaskRecord, has_time: bool) -> Outcome<()> {
    let row = &record.row;
    let sound = |fence: u64| if fence <= MAX_FENCE { fence } else { 0 };
    let sound_lock = |settled: Settled| Settled {
        fence: sound(settled.fence),
        ..settled
    };
    let keep = |at| if has_time { at } else { tasks.now };
    match row.status {
        Status::Unknown => return Ok(()),
        Status::Ended(ended) => {
            let (at, settled) = (keep(ended.at), sound_lock(ended.settled));
            tasks.row.raise_fence(settled.fence);
            end_task(
                tasks,
                row,
                Ended {
                    at,
                    settled,
                    ..ended
                },
            )?;
        }
        Status::Live(task) => {
            let (fence, settled) = (sound(task.fence), sound_lock(task.settled));
            tasks.row.raise_fence(fence.max(settled.fence));
            let task = Bookkeeping {
                fence,
                settled,
                ..task
            };
            let is_running = task.state == TaskState::Running;
            let mended = match (is_running && fence > 0, is_running) {
                (true, _) => task.locked(fence, keep(task.at)),
                (false, true) => task.put_back(tasks.now),
                (false, false) => Bookkeeping {
                    state: task.state,
                    ..task.put_back(keep(task.at))
                },
            };
            tasks.change(row, &mended)?;
        }
    }
    tasks.row.is_woken = true;
    Ok(())
}

fn audit_places(tasks: &mut TypeTasks<'_>, after: &IndexEntry, audit: &mut Audit) -> Outcome<()> {
    let IndexEntry { state, at, id } = after;
    let key = (tasks.row.id, *state, *at, id.as_str(), signed(STEP_ROWS));
    let places = tasks.query(SELECT_PLACES, key, |row| {
        let (state, at, id) = (row.get(0)?, row.get(1)?, row.get(2)?);
        Ok((IndexEntry { state, at, id }, row.get::<_, i64>(3)?))
    })?;
    audit.stage = Stage::Counts;
    for (place, seq) in places {
        let key = (seq, tasks.row.id, place.state, place.at, place.id.as_str());
        if !tasks.sql(SELECT_TASK)?.exists(key)? {
            audit.has_bad_index = true;
            audit.add(&place.id, "stands in the index without a task");
        }
        audit.stage = Stage::Places { after: place };
    }
    Ok(())
}

fn audit_counts(tasks: &mut TypeTasks<'_>, audit: &mut Audit) -> Outcome<()> {
    let states = [
        (TaskState::Scheduled, TaskState::Scheduled),
        (TaskState::Running, TaskState::Running),
        (TaskState::Dead, TaskState::Dead),
        (TaskState::Done, TaskState::Expired),
    ];
    for (first, last) in states {
        let key = (tasks.row.id, code(first), code(last));
        let counted: i64 = tasks.sql(COUNT)?.query_row(key, |row| row.get(0))?;
        let noted = tasks.row.stored_count(first);
        if counted == noted {
            continue;
        }
        if audit.repairs {
            tasks.row.add(first, counted.saturating_sub(noted));
        }
        // A bad index causes wrong counts, and is in the report already.
        if !audit.has_bad_index {
            let what = format!("{noted} {first} tasks are noted, {counted} are there");
            audit.add("", what);
        }
    }
    Ok(())
}

/// Requests to run again whose tasks are neither scheduled nor running: an earlier release has
/// ended them.
fn audit_follow_ups(tasks: &mut TypeTasks<'_>, after: &str, audit: &mut Audit) -> Outcome<()> {
    let left = FollowUp::left(tasks, after, STEP_ROWS)?;
    match left.last() {
        Some(last) => {
            audit.stage = Stage::FollowUps {
                after: last.clone(),
            };
        }
        None => audit.is_over = true,
    }
    for id in left {
        if audit.repairs
            && let Ok(id) = TaskId::new(&id)
        {
            FollowUp::adopt(tasks, &id)?;
        }
        audit.add(&id, "has a request to run again and does not run");
    }
    Ok(())
}

/// Large messages without a task, of any type.
fn audit_bodies(tasks: &mut TypeTasks<'_>, audit: &mut Audit) -> Outcome<()> {
    let step = [signed(STEP_ROWS)];
    let orphans: Vec<i64> = tasks.query(SELECT_ORPHANS, step, |row| row.get(0))?;
    for seq in orphans {
        if audit.repairs {
            tasks.execute(DELETE_BODY, [seq])?;
        }
        audit.add("", format!("message {seq} has no task"));
    }
    Ok(())
}
