//! Queries: what is there, without changing it.

use super::error::Outcome;
use super::rows::ROWS_BYTES;
use super::stored::{Stored, select_stored};
use super::tx::{Bucket, Tx, code, sql_count};
use crate::name::{TaskId, TaskType};
use crate::state::TaskState;
use crate::store::{Cursor, MAX_BATCH, Page, TypeStats};
use crate::task::TaskInfo;
use crate::time::Timestamp;

const SELECT_PAGE: &str = select_stored!(
    "INDEXED BY tasks_place WHERE type = ?1 AND state = ?2 AND (at, id) > (?3, ?4) \
     ORDER BY at, id LIMIT ?5"
);
const COUNT_DUE: &str = "SELECT count(*) FROM tasks INDEXED BY tasks_place \
     WHERE type = ?1 AND state = 0 AND at <= ?2";
const COUNT_PARTS: &str = "SELECT (at - ?2) * ?4 / (?3 - ?2), count(*) \
     FROM tasks INDEXED BY tasks_place \
     WHERE type = ?1 AND state = 0 AND at >= ?2 AND at < ?3 GROUP BY 1";
const SELECT_TYPES: &str =
    "SELECT name FROM types WHERE namespace = ?1 AND listed = 1 ORDER BY name";

impl Tx<'_> {
    /// The listed types, sorted.
    pub(super) fn types(&self) -> Outcome<Vec<TaskType>> {
        let mut select = self.connection.prepare_cached(SELECT_TYPES)?;
        let namespace = self.world.namespace.as_str();
        let names = select.query_map([namespace], |row| row.get::<_, String>(0))?;
        let mut types = Vec::new();
        for name in names {
            let name = name?;
            match TaskType::new(&name) {
                Ok(task_type) => types.push(task_type),
                // The other types have to be served all the same.
                Err(error) => tracing::error!(%error, "a stored task type is damaged"),
            }
        }
        Ok(types)
    }

    pub(super) fn stats(&mut self, task_type: &TaskType) -> Outcome<TypeStats> {
        let now = self.now();
        match self.known(task_type)? {
            Some(bucket) => bucket.stats(),
            None => Ok(TypeStats {
                now,
                ..TypeStats::default()
            }),
        }
    }
}

impl Bucket<'_> {
    pub(super) fn find(&self, id: &TaskId) -> Outcome<Option<TaskInfo>> {
        let stored = self
            .stored(id)?
            .filter(|stored| !self.is_over(&stored.place));
        Ok(stored.and_then(Stored::into_info))
    }

    fn stats(&self) -> Outcome<TypeStats> {
        let key = (self.row.id, self.now.as_millis());
        let due: i64 = self.sql(COUNT_DUE)?.query_row(key, |row| row.get(0))?;
        Ok(TypeStats {
            now: self.now,
            scheduled: self.row.count(TaskState::Scheduled),
            due: u64::try_from(due).unwrap_or(0),
            running: self.row.count(TaskState::Running),
            dead: self.row.count(TaskState::Dead),
            next_due: self.first(TaskState::Scheduled)?,
            paused_until: self.row.pause_at(self.now),
            max_pending: self.row.bounds.max_pending,
            refused: self.row.bounds.refused,
        })
    }

    pub(super) fn list(
        &self,
        state: TaskState,
        cursor: Option<&Cursor>,
        limit: usize,
    ) -> Outcome<Page> {
        let (at, id) = cursor.map_or((-1, ""), |c| (c.at.as_millis(), c.id.as_str()));
        let limit = limit.clamp(1, MAX_BATCH);
        // One more than asked for tells whether there is a next page.
        let rows = sql_count(limit.saturating_add(1));
        let key = (self.row.id, code(state), at, id, rows);
        let mut stored = self.stored_rows(SELECT_PAGE, key, limit.saturating_add(1))?;
        let bytes: usize = stored.iter().map(|stored| stored.message.len()).sum();
        let has_more = stored.len() > limit || bytes >= ROWS_BYTES;
        stored.truncate(limit);
        let tasks: Vec<TaskInfo> = stored.into_iter().filter_map(shown).collect();
        let last = tasks.last().filter(|_| has_more);
        let next = last.map(|task| Cursor {
            at: task.at,
            id: task.id.clone(),
        });
        Ok(Page { tasks, next })
    }

    pub(super) fn due_histogram(
        &self,
        from: Timestamp,
        to: Timestamp,
        steps: usize,
    ) -> Outcome<Vec<u64>> {
        let mut counts = vec![0; steps];
        let key = (
            self.row.id,
            from.as_millis(),
            to.as_millis(),
            sql_count(steps),
        );
        let mut select = self.sql(COUNT_PARTS)?;
        let mut rows = select.query(key)?;
        while let Some(row) = rows.next()? {
            let (part, tasks): (i64, i64) = (row.get(0)?, row.get(1)?);
            let count = usize::try_from(part)
                .ok()
                .and_then(|part| counts.get_mut(part));
            if let Some(count) = count {
                *count = u64::try_from(tasks).unwrap_or(0);
            }
        }
        Ok(counts)
    }
}

/// A task for a listing. One whose id is damaged has no form to be shown in.
fn shown(stored: Stored) -> Option<TaskInfo> {
    let seq = stored.place.seq;
    let info = stored.into_info();
    if info.is_none() {
        tracing::error!(seq, "a stored task is damaged: run an audit with repair");
    }
    info
}
