//! Calls in a transaction of the application, on a connection of its own to the same file.

use std::path::{Path, PathBuf};

use delayq_core::error::{Error, Result};
use delayq_core::job::{NewTask, When};
use delayq_core::name::{TaskId, TaskType};
use delayq_core::store::{CancelOutcome, ChangeOutcome, SubmitOutcome};
use delayq_core::task::{Headers, TaskInfo};
use rusqlite::Connection;

use crate::error::Outcome;
use crate::operations::{change, query, submit};
use crate::rows::{Context, Tx};
use crate::schema;

/// What a call begins with, and how it ends: it is applied as a whole or not at all, whatever
/// becomes of the rest of the transaction.
const BEGIN: &str = "SAVEPOINT delayq_call";
const END: &str = "RELEASE delayq_call";
const TAKE_BACK: &str = "ROLLBACK TO delayq_call; RELEASE delayq_call";

/// An open transaction of the application on the file of a [`SqliteStore`](crate::SqliteStore), in
/// which tasks are sent and changed: [`within`](crate::SqliteStore::within) makes it.
///
/// Nothing has happened unless the application commits. A delay counts from the call. A handler
/// finds a task that is due at once within a second of the commit.
#[derive(Debug)]
pub struct SqliteTransaction<'a> {
    connection: &'a Connection,
    context: &'a Context,
}

impl<'a> SqliteTransaction<'a> {
    /// # Errors
    /// `InvalidInput` if no transaction is open, or the connection is not to the file at `path`.
    pub(crate) fn new(
        context: &'a Context,
        path: &Path,
        connection: &'a Connection,
    ) -> Result<Self> {
        if connection.is_autocommit() {
            let reason = "the connection has no open transaction: begin one, as IMMEDIATE";
            return Err(Error::invalid("transaction", reason));
        }
        let own = connection.path().map(PathBuf::from);
        let own = own.and_then(|path| path.canonicalize().ok());
        if own.is_none() || own != path.canonicalize().ok() {
            let reason = format!("the connection is not to the file of {}", context.store);
            return Err(Error::invalid("transaction", reason));
        }
        Ok(Self {
            connection,
            context,
        })
    }

    /// Sends tasks; one result for each, in order. `TaskSubmitService::prepare` makes a task from a
    /// job, before the transaction begins.
    ///
    /// # Errors
    /// `Unavailable` if another transaction is writing, for longer than the connection waits;
    /// `Full`, `Corrupt`, `Incompatible`. Nothing of the call is applied then. Refusals of a task
    /// are its result.
    pub fn send(&self, tasks: &[NewTask]) -> Result<Vec<Result<SubmitOutcome>>> {
        self.call(|tx| tasks.iter().map(|task| submit::submit(tx, task)).collect())
    }

    /// Cancels a task.
    ///
    /// # Errors
    /// As for [`send`](Self::send).
    pub fn cancel(&self, task_type: &TaskType, id: &TaskId) -> Result<CancelOutcome> {
        self.call(|tx| change::cancel(&mut tx.known(task_type)?, id))
    }

    /// Moves a scheduled task to another time.
    ///
    /// # Errors
    /// As for [`send`](Self::send).
    pub fn reschedule(
        &self,
        task_type: &TaskType,
        id: &TaskId,
        when: When,
    ) -> Result<ChangeOutcome> {
        self.call(|tx| change::reschedule(&mut tx.known(task_type)?, id, when))
    }

    /// Replaces the message of a scheduled task.
    ///
    /// # Errors
    /// As for [`send`](Self::send).
    pub fn update(
        &self,
        task_type: &TaskType,
        id: &TaskId,
        message: &[u8],
    ) -> Result<ChangeOutcome> {
        let headers = Headers::new();
        self.call(|tx| change::update(&mut tx.known(task_type)?, id, message, &headers))
    }

    /// A task as the transaction sees it.
    ///
    /// # Errors
    /// As for [`send`](Self::send).
    pub fn find(&self, task_type: &TaskType, id: &TaskId) -> Result<Option<TaskInfo>> {
        self.call(|tx| query::find(&tx.known(task_type)?, id))
    }

    fn call<R>(&self, operation: impl FnOnce(&mut Tx<'_>) -> Outcome<R>) -> Result<R> {
        let done = self.connection.execute_batch(BEGIN).map_err(Into::into);
        let done = done.and_then(|()| self.run(operation));
        done.map_err(|fault| {
            // A transaction that SQLite has taken back as a whole has no savepoint any more.
            let _ = self.connection.execute_batch(TAKE_BACK);
            fault.error(&self.context.store)
        })
    }

    fn run<R>(&self, operation: impl FnOnce(&mut Tx<'_>) -> Outcome<R>) -> Outcome<R> {
        schema::check_version(self.connection, &self.context.store)?;
        let mut tx = Tx::new(self.connection, self.context);
        let answer = operation(&mut tx)?;
        tx.finish()?;
        self.connection.execute_batch(END)?;
        Ok(answer)
    }
}
