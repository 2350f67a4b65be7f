//! One transaction, and in it the types that its operations touch.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use delayq_core::name::TaskType;
use delayq_core::time::{Reading, Timestamp};
use rusqlite::{Connection, OptionalExtension};

use super::context::Context;
use super::retain::forget_some;
use super::type_row::TypeRow;
use super::type_tasks::TypeTasks;
use crate::error::Outcome;

const SELECT_TYPE: &str = "SELECT id, listed, paused_until, fence, scheduled, running, dead, \
     ended, tat, held_back, max_pending, refused FROM types WHERE namespace = ?1 AND name = ?2";
const INSERT_TYPE: &str = "INSERT INTO types (namespace, name) VALUES (?1, ?2)";

/// One transaction: the operations of a group run in it one after the other.
#[derive(Debug)]
pub(crate) struct Tx<'a> {
    pub(crate) connection: &'a Connection,
    pub(crate) context: &'a Context,
    rows: HashMap<TaskType, TypeRow>,
}

impl<'a> Tx<'a> {
    pub(crate) fn new(connection: &'a Connection, context: &'a Context) -> Self {
        Self {
            connection,
            context,
            rows: HashMap::new(),
        }
    }

    /// The time on the store's clock.
    pub(crate) fn reading(&self) -> Reading {
        self.context.clock.read()
    }

    /// The same, in whole milliseconds.
    pub(crate) fn now(&self) -> Timestamp {
        self.reading().now
    }

    /// The type, made if it is new.
    pub(crate) fn made(&mut self, task_type: &TaskType) -> Outcome<TypeTasks<'_>> {
        if self.known(task_type)?.is_none() {
            let key = (self.context.namespace.as_str(), task_type.as_str());
            self.connection.prepare_cached(INSERT_TYPE)?.execute(key)?;
            let row = TypeRow::new(self.connection.last_insert_rowid());
            self.rows.insert(task_type.clone(), row);
        }
        let tasks = self.known(task_type)?;
        Ok(tasks.expect("the row was found or made just before"))
    }

    /// The type, if it has a row. A damaged row is refused.
    pub(crate) fn known(&mut self, task_type: &TaskType) -> Outcome<Option<TypeTasks<'_>>> {
        let tasks = self.known_or_damaged(task_type)?;
        if let Some(tasks) = &tasks {
            tasks.row.check(task_type)?;
        }
        Ok(tasks)
    }

    /// The type, if it has a row, damaged or not: for the audit.
    pub(crate) fn known_or_damaged(
        &mut self,
        task_type: &TaskType,
    ) -> Outcome<Option<TypeTasks<'_>>> {
        let reading = self.reading();
        let row = match self.rows.entry(task_type.clone()) {
            Entry::Occupied(row) => row.into_mut(),
            Entry::Vacant(vacant) => {
                let key = (self.context.namespace.as_str(), task_type.as_str());
                let mut select = self.connection.prepare_cached(SELECT_TYPE)?;
                let Some(row) = select.query_row(key, TypeRow::read).optional()? else {
                    return Ok(None);
                };
                vacant.insert(row)
            }
        };
        Ok(Some(TypeTasks {
            connection: self.connection,
            row,
            now: reading.now,
            reading,
            retention: self.context.retention,
        }))
    }

    /// Writes the types back; returns those whose handlers have to be woken after the commit.
    pub(crate) fn finish(mut self) -> Outcome<Vec<TaskType>> {
        let mut woken = Vec::new();
        let reading = self.reading();
        for (task_type, row) in &mut self.rows {
            let mut tasks = TypeTasks {
                connection: self.connection,
                now: reading.now,
                reading,
                retention: self.context.retention,
                row,
            };
            forget_some(&mut tasks)?;
            tasks.row.write(self.connection)?;
            if tasks.row.is_woken {
                woken.push(task_type.clone());
            }
        }
        Ok(woken)
    }
}
