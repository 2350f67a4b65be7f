//! The proof that a type is sound: every row against its checksum, its lock and both indexes, the
//! indexes against the rows, and the counters against a count.

use std::collections::HashSet;

use rusqlite::OptionalExtension;

use super::error::Outcome;
use super::stored::{Stored, select_stored};
use super::tx::{Bucket, code, sql_count};
use crate::name::TaskId;
use crate::state::TaskState;
use crate::store::{AuditReport, Problem};
use crate::time::Timestamp;

/// Most rows looked at in one step: some milliseconds of work.
const STEP_ROWS: usize = 256;

/// Most problems in one report; further ones are mended without being told.
const MAX_PROBLEMS: usize = 1_000;

const SELECT_ROWS: &str =
    select_stored!("INDEXED BY tasks_id WHERE type = ?1 AND id > ?2 ORDER BY id LIMIT ?3");
const SELECT_SEEN: &str = "SELECT at, EXISTS (SELECT 1 FROM tasks AS place INDEXED BY tasks_place \
     WHERE place.type = task.type AND place.state = task.state AND place.at = task.at \
     AND place.id = task.id AND place.seq = task.seq) FROM tasks AS task WHERE seq = ?1";
const SELECT_PLACES: &str = "SELECT state, at, id, seq FROM tasks INDEXED BY tasks_place \
     WHERE type = ?1 AND (state, at, id) > (?2, ?3, ?4) ORDER BY state, at, id LIMIT ?5";
const SELECT_TASK: &str = "SELECT 1 FROM tasks NOT INDEXED \
     WHERE seq = ?1 AND type = ?2 AND state = ?3 AND at = ?4 AND id = ?5";
const COUNT: &str = "SELECT count(*) FROM tasks INDEXED BY tasks_place \
     WHERE type = ?1 AND state BETWEEN ?2 AND ?3";
const SELECT_ORPHANS: &str = "SELECT seq FROM bodies \
     WHERE NOT EXISTS (SELECT 1 FROM tasks WHERE tasks.seq = bodies.seq) LIMIT ?1";
const DELETE_BODY: &str = "DELETE FROM bodies WHERE seq = ?1";
const BURY: &str = "UPDATE tasks SET id = ?2, state = 2, at = ?3, fence = 0, cancel = 0, \
     last_error = ?4 WHERE seq = ?1";
const RESET: &str = "UPDATE tasks SET state = ?2, at = ?3, fence = ?4, cancel = ?5 WHERE seq = ?1";

/// Makes the indexes from the rows again.
pub(super) const REINDEX: &str = "REINDEX tasks";

/// Counts every type again.
pub(super) const RECOUNT: &str = "UPDATE types SET \
     scheduled = (SELECT count(*) FROM tasks WHERE type = types.id AND state = 0), \
     running = (SELECT count(*) FROM tasks WHERE type = types.id AND state = 1), \
     dead = (SELECT count(*) FROM tasks WHERE type = types.id AND state = 2), \
     ended = (SELECT count(*) FROM tasks WHERE type = types.id AND state BETWEEN 3 AND 5)";

/// How far an audit has come: first over everything without a change, then, if it may, once more to mend.
#[derive(Clone, Debug, Default)]
pub(super) struct Audit {
    stage: Stage,
    /// Whether it mends what it finds.
    pub(super) repairs: bool,
    pub(super) is_over: bool,
    pub(super) report: AuditReport,
    /// Whether an index does not agree with the rows.
    has_bad_index: bool,
}

#[derive(Clone, Debug)]
enum Stage {
    /// The indexes, to be made again.
    Indexes,
    /// Rows after this id.
    Rows(String),
    /// Entries of the index of places after this state, time and id.
    Places(i64, i64, String),
    /// What is counted.
    Counts,
}

impl Default for Stage {
    fn default() -> Self {
        Self::Rows(String::new())
    }
}

impl Audit {
    fn add(&mut self, id: &str, what: impl Into<String>) {
        if self.report.problems.len() >= MAX_PROBLEMS {
            return;
        }
        self.report.problems.push(Problem {
            id: id.to_owned(),
            what: what.into(),
            repaired: self.repairs,
        });
    }

    /// The second round of an audit that has found something. Its first step makes the indexes again, so
    /// it finds the rest only.
    pub(super) fn to_repair(&self) -> Self {
        Self {
            stage: if self.has_bad_index {
                Stage::Indexes
            } else {
                Stage::default()
            },
            repairs: true,
            has_bad_index: self.has_bad_index,
            ..Self::default()
        }
    }

    /// The report of the first round, after `repair`, the second one.
    pub(super) fn repaired_by(self, repair: Self) -> AuditReport {
        let mut report = self.report;
        for problem in &mut report.problems {
            problem.repaired = true;
        }
        let known: HashSet<_> = report.problems.iter().map(|p| p.id.clone()).collect();
        let new = repair.report.problems.into_iter();
        let new = new.filter(|problem| !known.contains(&problem.id));
        report.problems.extend(new.collect::<Vec<_>>());
        report
    }
}

impl Bucket<'_> {
    /// One step of an audit.
    pub(super) fn audit(&mut self, mut audit: Audit) -> Outcome<Audit> {
        match audit.stage.clone() {
            Stage::Indexes => {
                self.execute(REINDEX, [])?;
                audit.stage = Stage::default();
            }
            Stage::Rows(after) => self.audit_rows(&after, &mut audit)?,
            Stage::Places(state, at, id) => self.audit_places(&(state, at, id), &mut audit)?,
            Stage::Counts => {
                self.audit_counts(&mut audit)?;
                self.audit_bodies(&mut audit)?;
                audit.is_over = true;
            }
        }
        Ok(audit)
    }

    fn audit_rows(&mut self, after: &str, audit: &mut Audit) -> Outcome<()> {
        let key = (self.row.id, after, sql_count(STEP_ROWS));
        let rows = self.stored_rows(SELECT_ROWS, key, STEP_ROWS)?;
        let next = rows.last().map(|task| task.id.clone());
        audit.stage = next.map_or(Stage::Places(-1, 0, String::new()), Stage::Rows);
        for task in rows {
            if !self.is_over(&task.place) {
                audit.report.checked += 1;
                self.audit_row(&task, audit)?;
            }
        }
        Ok(())
    }

    fn audit_row(&mut self, task: &Stored, audit: &mut Audit) -> Outcome<()> {
        let mut seen = self.sql(SELECT_SEEN)?;
        let (at, is_placed): (i64, bool) =
            seen.query_row([task.place.seq], |row| Ok((row.get(0)?, row.get(1)?)))?;
        if !is_placed {
            audit.has_bad_index = true;
            audit.add(&task.id, "has lost its place in the index");
        }
        if let Some(what) = fatal_damage(task) {
            if audit.repairs {
                self.bury(task, &what)?;
            }
            audit.add(&task.id, what);
            return Ok(());
        }
        if let Some(what) = self.wrong_lock(task, at) {
            if audit.repairs {
                self.reset(task, at)?;
            }
            audit.add(&task.id, what);
        }
        Ok(())
    }

    /// What is wrong with the lock or the time of a task whose record is sound.
    fn wrong_lock(&self, task: &Stored, at: i64) -> Option<String> {
        let place = &task.place;
        let is_running = place.is(TaskState::Running);
        if !(0..=Timestamp::MAX.as_millis()).contains(&at) {
            return Some(format!("its time {at} is no time"));
        }
        if is_running && place.fence <= 0 {
            return Some("runs without a lock".to_owned());
        }
        if !is_running && (place.fence != 0 || place.cancel) {
            return Some("has a lock or a cancel request and does not run".to_owned());
        }
        let fence = u64::try_from(place.fence.max(place.settled)).unwrap_or(0);
        (fence > self.row.fence)
            .then(|| format!("its fence {fence} is above the largest one given"))
    }

    /// Gives a task a lock or a time that it can have: what has no lock is scheduled, and nothing starts
    /// earlier than now for a time that was lost.
    fn reset(&mut self, task: &Stored, at: i64) -> Outcome<()> {
        let place = &task.place;
        let Some(state) = place.state else {
            return Ok(());
        };
        let fence = u64::try_from(place.fence.max(place.settled)).unwrap_or(0);
        self.row.fence = self.row.fence.max(fence);
        self.row.touch();
        let is_running = state == TaskState::Running;
        let keeps_lock = is_running && place.fence > 0;
        let new_state = if is_running && !keeps_lock {
            TaskState::Scheduled
        } else {
            state
        };
        let has_time = (0..=Timestamp::MAX.as_millis()).contains(&at) && new_state == state;
        let at = if has_time { at } else { self.now.as_millis() };
        let fence = if keeps_lock { place.fence } else { 0 };
        let cancel = place.cancel && keeps_lock;
        self.execute(RESET, (place.seq, code(new_state), at, fence, cancel))?;
        self.leave(place);
        self.row.add(new_state, 1);
        self.row.forget_head();
        self.row.is_woken = true;
        Ok(())
    }

    /// Parks what cannot run.
    fn bury(&mut self, task: &Stored, what: &str) -> Outcome<()> {
        let id = match TaskId::new(&task.id) {
            Ok(id) => id.to_string(),
            Err(_) => format!("corrupt-{}", TaskId::generate()),
        };
        let now = self.now.as_millis();
        self.execute(BURY, (task.place.seq, id, now, what))?;
        self.leave(&task.place);
        self.row.add(TaskState::Dead, 1);
        Ok(())
    }

    fn audit_places(&mut self, after: &(i64, i64, String), audit: &mut Audit) -> Outcome<()> {
        let (state, at, id) = after;
        let key = (self.row.id, *state, *at, id.as_str(), sql_count(STEP_ROWS));
        let places: Vec<(i64, i64, String, i64)> = {
            let mut select = self.sql(SELECT_PLACES)?;
            let places = select.query_map(key, |row| {
                Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?))
            })?;
            places.collect::<rusqlite::Result<_>>()?
        };
        audit.stage = Stage::Counts;
        for (state, at, id, seq) in places {
            let key = (seq, self.row.id, state, at, id.as_str());
            let task = self
                .sql(SELECT_TASK)?
                .query_row(key, |_| Ok(()))
                .optional()?;
            if task.is_none() {
                audit.has_bad_index = true;
                audit.add(&id, "stands in the index without a task");
            }
            audit.stage = Stage::Places(state, at, id);
        }
        Ok(())
    }

    fn audit_counts(&mut self, audit: &mut Audit) -> Outcome<()> {
        let states = [
            (TaskState::Scheduled, TaskState::Scheduled),
            (TaskState::Running, TaskState::Running),
            (TaskState::Dead, TaskState::Dead),
            (TaskState::Done, TaskState::Expired),
        ];
        for (first, last) in states {
            let key = (self.row.id, code(first), code(last));
            let counted: i64 = self.sql(COUNT)?.query_row(key, |row| row.get(0))?;
            let noted = self.row.counted(first);
            if counted == noted {
                continue;
            }
            if audit.repairs {
                self.row.add(first, counted.saturating_sub(noted));
            }
            // A bad index miscounts, and has been told already.
            if !audit.has_bad_index {
                let what = format!("{noted} {first} tasks are noted, {counted} are there");
                audit.add("", what);
            }
        }
        Ok(())
    }

    /// Large messages without a task, of whatever type they were.
    fn audit_bodies(&mut self, audit: &mut Audit) -> Outcome<()> {
        let orphans: Vec<i64> = {
            let mut select = self.sql(SELECT_ORPHANS)?;
            let orphans = select.query_map([sql_count(STEP_ROWS)], |row| row.get(0))?;
            orphans.collect::<rusqlite::Result<_>>()?
        };
        for seq in orphans {
            if audit.repairs {
                self.execute(DELETE_BODY, [seq])?;
            }
            audit.add("", format!("message {seq} has no task"));
        }
        Ok(())
    }
}

/// Why a task cannot run, if it cannot. One that is dead and says so has been dealt with.
fn fatal_damage(task: &Stored) -> Option<String> {
    if TaskId::new(&task.id).is_err() {
        return Some(format!(
            "corrupt: its stored id {:?} is not a task id",
            task.id
        ));
    }
    let Some(state) = task.place.state else {
        return Some("corrupt: its stored state is unknown".to_owned());
    };
    let error = task.trail.last_error.as_deref().unwrap_or_default();
    let is_parked = state == TaskState::Dead && error.starts_with("corrupt: ");
    if state.is_ended() || is_parked {
        return None;
    }
    task.damage()
}
