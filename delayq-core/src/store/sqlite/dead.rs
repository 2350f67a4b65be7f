//! Dead letters and purges: many tasks, a bounded number in each step.

use std::time::Duration;

use super::error::Outcome;
use super::stored::{Place, select_place};
use super::tx::{Bucket, code, sql_count};
use crate::name::TaskId;
use crate::state::TaskState;
use crate::store::DeadFilter;
use crate::time::Timestamp;

/// Most tasks looked at in one step: some milliseconds of work, so that claims need not wait longer.
pub(super) const STEP_TASKS: usize = 500;

const SELECT_DEAD: &str = "SELECT seq, at, id, last_error FROM tasks INDEXED BY tasks_place \
     WHERE type = ?1 AND state = 2 AND at < ?2 AND (at, id) > (?3, ?4) ORDER BY at, id LIMIT ?5";
const SELECT_SEQ: &str = select_place!("WHERE seq = ?1");
const SELECT_STATE: &str =
    select_place!("INDEXED BY tasks_place WHERE type = ?1 AND state = ?2 ORDER BY at, id LIMIT ?3");
const REQUEUE: &str = "UPDATE tasks SET state = 0, at = ?2, due = ?2, delay = NULL, failures = 0, \
     lock_expiries = 0, releases = 0, requeues = requeues + 1 WHERE seq = ?1";

/// What is done to dead tasks.
#[derive(Clone, Copy, Debug)]
pub(super) enum DeadEdge {
    /// Scheduled again, each this long after the one before.
    Requeue(Duration),
    /// Removed.
    Discard,
}

/// How far a walk over dead tasks has come.
#[derive(Clone, Debug)]
pub(super) struct Walk {
    /// The time of the first step: what dies later is not meant.
    started: Option<Timestamp>,
    /// When the next requeued task is due.
    due_at: Timestamp,
    /// The last task looked at.
    after: (Timestamp, String),
    /// Ids looked at, when ids were given.
    ids: usize,
    pub(super) is_over: bool,
    /// The tasks changed so far.
    pub(super) changed: Vec<TaskId>,
}

impl Default for Walk {
    fn default() -> Self {
        Self {
            started: None,
            due_at: Timestamp::ZERO,
            after: (Timestamp::ZERO, String::new()),
            ids: 0,
            is_over: false,
            changed: Vec::new(),
        }
    }
}

/// A dead task that a step looks at.
struct Dead {
    seq: i64,
    at: Timestamp,
    id: String,
    error: Option<String>,
}

impl Bucket<'_> {
    /// One step of a walk.
    pub(super) fn walk_dead(
        &mut self,
        filter: &DeadFilter,
        edge: DeadEdge,
        mut walk: Walk,
    ) -> Outcome<Walk> {
        if walk.started.is_none() {
            walk.started = Some(self.now);
            walk.due_at = self.now;
        }
        match filter {
            DeadFilter::Ids(ids) => self.walk_ids(ids, edge, &mut walk)?,
            DeadFilter::Matching { limit, .. } if walk.changed.len() >= *limit => {
                walk.is_over = true;
            }
            DeadFilter::Matching { .. } => self.walk_matching(filter, edge, &mut walk)?,
        }
        Ok(walk)
    }

    fn walk_ids(&mut self, ids: &[TaskId], edge: DeadEdge, walk: &mut Walk) -> Outcome<()> {
        let step = ids.iter().skip(walk.ids).take(STEP_TASKS);
        for id in step {
            walk.ids += 1;
            if let Some(place) = self.place(id)?.filter(|place| place.is(TaskState::Dead)) {
                self.change_dead(&place, id, edge, walk)?;
            }
        }
        walk.is_over = walk.ids >= ids.len();
        Ok(())
    }

    fn walk_matching(
        &mut self,
        filter: &DeadFilter,
        edge: DeadEdge,
        walk: &mut Walk,
    ) -> Outcome<()> {
        let DeadFilter::Matching {
            died_before,
            error_contains,
            limit,
        } = filter
        else {
            return Ok(());
        };
        let dead = self.dead_after(walk, *died_before)?;
        walk.is_over = dead.len() < STEP_TASKS;
        for task in dead {
            let error = task.error.as_deref();
            let contains = |text: &str| error.is_some_and(|error| error.contains(text));
            let is_meant = error_contains.as_deref().is_none_or(contains);
            walk.after = (task.at, task.id);
            if !is_meant {
                continue;
            }
            let place = self.sql(SELECT_SEQ)?.query_row([task.seq], Place::read)?;
            // A damaged id cannot be told to the caller; an audit with repair gives it a new one.
            if let Ok(id) = TaskId::new(&walk.after.1) {
                self.change_dead(&place, &id, edge, walk)?;
            }
            if walk.changed.len() >= *limit {
                walk.is_over = true;
                break;
            }
        }
        Ok(())
    }

    fn dead_after(&self, walk: &Walk, died_before: Option<Timestamp>) -> Outcome<Vec<Dead>> {
        let started = walk.started.unwrap_or(self.now).as_millis();
        let before = died_before.map_or(i64::MAX, Timestamp::as_millis);
        let (at, id) = &walk.after;
        let key = (
            self.row.id,
            before.min(started.saturating_add(1)),
            at.as_millis(),
            id.as_str(),
            sql_count(STEP_TASKS),
        );
        let mut select = self.sql(SELECT_DEAD)?;
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

    fn change_dead(
        &mut self,
        place: &Place,
        id: &TaskId,
        edge: DeadEdge,
        walk: &mut Walk,
    ) -> Outcome<()> {
        match edge {
            DeadEdge::Discard => self.remove(place)?,
            DeadEdge::Requeue(interval) => {
                let due_at = self.put_back(place, walk.due_at)?;
                self.execute(REQUEUE, (place.seq, due_at))?;
                walk.due_at = walk.due_at.plus(interval);
            }
        }
        walk.changed.push(id.clone());
        Ok(())
    }

    /// Removes some tasks in `state`; returns how many could be seen, and whether all are gone.
    pub(super) fn purge(&mut self, state: TaskState) -> Outcome<(u64, bool)> {
        let places: Vec<Place> = {
            let key = (self.row.id, code(state), sql_count(STEP_TASKS));
            let mut select = self.sql(SELECT_STATE)?;
            let places = select.query_map(key, Place::read)?;
            places.collect::<rusqlite::Result<_>>()?
        };
        let mut purged = 0;
        for place in &places {
            self.remove(place)?;
            purged += u64::from(!self.is_over(place));
        }
        Ok((purged, places.len() < STEP_TASKS))
    }
}
