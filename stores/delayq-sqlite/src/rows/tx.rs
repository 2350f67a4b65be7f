//! One transaction, with the types that its operations touch.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use delayq_core::error::Error;
use delayq_core::name::TaskType;
use delayq_core::time::{Reading, Timestamp};
use rusqlite::{Connection, OptionalExtension};

use super::context::Context;
use super::ends_change::EndsChange;
use super::retain::forget_some;
use super::type_row::TypeRow;
use super::type_tasks::TypeTasks;
use crate::error::Outcome;

const SELECT_TYPE: &str = "SELECT id, listed, paused_until, fence, scheduled, running, dead, \
     ended, tat, held_back, max_pending, refused, fleet_concurrency, rate_starts, rate_per, \
     rate_burst, done, died, cancelled, expired, failed, forgotten, \
     history FROM types WHERE namespace = ?1 AND name = ?2";
const INSERT_TYPE: &str = "INSERT INTO types (namespace, name) VALUES (?1, ?2)";

/// One transaction: the operations of a group run in it one after the other.
#[derive(Debug)]
pub(crate) struct Tx<'a> {
    pub(crate) connection: &'a Connection,
    pub(crate) context: &'a Context,
    /// True if it can only read, so that others can write meanwhile.
    pub(crate) is_snapshot: bool,
    rows: HashMap<TaskType, TypeRow>,
}

impl<'a> Tx<'a> {
    pub(crate) fn new(connection: &'a Connection, context: &'a Context) -> Self {
        Self {
            connection,
            context,
            is_snapshot: false,
            rows: HashMap::new(),
        }
    }

    /// The time by the store's clock.
    pub(crate) fn reading(&self) -> Reading {
        self.context.clock.read()
    }

    /// The same, in whole milliseconds.
    pub(crate) fn now(&self) -> Timestamp {
        self.reading().now
    }

    /// The type, created if it is new.
    pub(crate) fn made(&mut self, task_type: &TaskType) -> Outcome<TypeTasks<'_>> {
        let context = self.context;
        let tasks = self.known(task_type)?;
        if tasks.row.id.is_none() {
            tasks.execute(
                INSERT_TYPE,
                (context.namespace.as_str(), task_type.as_str()),
            )?;
            tasks.row.id = Some(tasks.connection.last_insert_rowid());
        }
        Ok(tasks)
    }

    /// The type; one without a row reads as empty. Refuses a damaged row.
    pub(crate) fn known(&mut self, task_type: &TaskType) -> Outcome<TypeTasks<'_>> {
        let tasks = self.known_or_damaged(task_type)?;
        tasks.row.check(task_type)?;
        Ok(tasks)
    }

    /// The type, even if its row is damaged: for the audit.
    pub(crate) fn known_or_damaged(&mut self, task_type: &TaskType) -> Outcome<TypeTasks<'_>> {
        let row = match self.rows.entry(task_type.clone()) {
            Entry::Occupied(row) => row.into_mut(),
            Entry::Vacant(vacant) => {
                let key = (self.context.namespace.as_str(), task_type.as_str());
                let mut select = self.connection.prepare_cached(SELECT_TYPE)?;
                let row = select.query_row(key, TypeRow::read).optional()?;
                vacant.insert(row.unwrap_or_default())
            }
        };
        Ok(TypeTasks::new(self.connection, self.context, row))
    }

    /// The names selected by `sql` in the namespace.
    pub(crate) fn names(&self, sql: &str) -> Outcome<Vec<String>> {
        let mut select = self.connection.prepare_cached(sql)?;
        let names = select.query_map([self.context.namespace.as_str()], |row| row.get(0))?;
        Ok(names.collect::<rusqlite::Result<_>>()?)
    }

    /// Writes the types back. Returns those whose handlers have to be woken after the commit.
    pub(crate) fn finish(mut self) -> Outcome<Vec<TaskType>> {
        let mut woken = Vec::new();
        let mut recorded = EndsChange::default();
        for (task_type, row) in &mut self.rows {
            let mut tasks = TypeTasks::new(self.connection, self.context, row);
            forget_some(&mut tasks, task_type)?;
            tasks.row.write(self.connection)?;
            recorded.waiting += tasks.row.recorded.waiting;
            recorded.bytes += tasks.row.recorded.bytes;
            if tasks.row.is_woken {
                woken.push(task_type.clone());
            }
        }
        recorded.finish(self.connection, self.context)?;
        Ok(woken)
    }
}

/// Stops an operation that has to write but only has a snapshot: it is repeated with the lock.
pub(crate) fn refuse_snapshot(is_snapshot: bool) -> Outcome<()> {
    if is_snapshot {
        return Err(Error::Unsupported("a change of a snapshot").into());
    }
    Ok(())
}
