//! Maintenance between two groups of the writer: other processes, ended tasks, the reserve.

use std::time::{Duration, Instant};

use delayq_core::name::TaskType;
use delayq_core::store::Wakeup;
use rusqlite::Connection;

use crate::commit::writer::Writer;
use crate::connection::busy;
use crate::error::Outcome;
use crate::rows::{Tx, forget, has_to_forget};
use crate::schema;

/// How often the writer checks whether other processes have committed. A sooner task that they
/// submitted starts here at most so much too late. A check costs microseconds and reads no file.
pub(crate) const CHECK_EVERY: Duration = Duration::from_millis(100);

/// How often the writer forgets ended tasks of types in which nothing ends any more.
const TIDY_UP: Duration = Duration::from_secs(1);

/// Most ended tasks of a type forgotten at a time: some milliseconds of work.
const TIDY_TASKS: usize = 1_000;

/// Longest wait of the maintenance for the write lock; the next run tries again.
const LOCK_WAIT: Duration = Duration::from_millis(50);

const SELECT_RETAINING: &str = "SELECT name FROM types WHERE namespace = ?1 AND ended > 0";

/// Schedule of the maintenance, and what it observed last.
#[derive(Debug)]
pub(crate) struct Maintenance {
    checked: Instant,
    tidied: Instant,
    data_version: Option<i64>,
}

impl Maintenance {
    pub(crate) fn new(connection: &Connection) -> Self {
        let now = Instant::now();
        Self {
            checked: now,
            tidied: now,
            data_version: data_version(connection).ok(),
        }
    }

    /// Runs what is due. A failure is logged only: the next call, or the next run, meets it again.
    pub(crate) fn run(&mut self, writer: &Writer) {
        let now = Instant::now();
        if now.duration_since(self.checked) < CHECK_EVERY {
            return;
        }
        self.checked = now;
        busy::wait_until(now + LOCK_WAIT);
        log(
            writer,
            self.notice_commits(writer),
            "cannot check for other processes",
        );
        if now.duration_since(self.tidied) < TIDY_UP {
            return;
        }
        self.tidied = now;
        // So that a store which takes no new tasks has its reserve, too.
        let _ = writer.reserve.is_ready(writer.bytes.get());
        let tidied = tidy_up(writer);
        if tidied.is_err() {
            writer.roll_back();
        }
        log(writer, tidied, "cannot forget ended tasks now");
    }

    /// Wakes all handlers when another process has committed: SQLite does not say what it changed.
    fn notice_commits(&mut self, writer: &Writer) -> Outcome<()> {
        let seen = self.data_version.replace(data_version(&writer.connection)?);
        if seen != self.data_version {
            writer.wake(Wakeup::All);
        }
        Ok(())
    }
}

fn log(writer: &Writer, outcome: Outcome<()>, what: &str) {
    if let Err(fault) = outcome {
        let store = &writer.context.store;
        tracing::debug!(store, ?fault, "{what}");
    }
}

/// Changes whenever another connection has committed.
fn data_version(connection: &Connection) -> Outcome<i64> {
    let mut select = connection.prepare_cached("PRAGMA data_version")?;
    Ok(select.query_row([], |row| row.get(0))?)
}

fn tidy_up(writer: &Writer) -> Outcome<()> {
    let mut overdue = Vec::new();
    let mut tx = Tx::new(&writer.connection, &writer.context);
    for task_type in retaining_types(writer)? {
        // A damaged type is left alone, and does not keep the others from being forgotten.
        if let Ok(Some(tasks)) = tx.known(&task_type)
            && has_to_forget(&tasks)?
        {
            overdue.push(task_type);
        }
    }
    if overdue.is_empty() {
        return Ok(());
    }
    writer.connection.execute_batch("BEGIN IMMEDIATE")?;
    schema::check_version(&writer.connection, &writer.context.store)?;
    let mut tx = Tx::new(&writer.connection, &writer.context);
    for task_type in overdue {
        if let Some(mut tasks) = tx.known(&task_type)? {
            forget(&mut tasks, TIDY_TASKS)?;
        }
    }
    tx.finish()?;
    writer.files.check()?;
    writer.connection.execute_batch("COMMIT")?;
    Ok(())
}

/// The types in which tasks have ended that are remembered.
fn retaining_types(writer: &Writer) -> Outcome<Vec<TaskType>> {
    let mut select = writer.connection.prepare_cached(SELECT_RETAINING)?;
    let namespace = writer.context.namespace.as_str();
    let names = select.query_map([namespace], |row| row.get::<_, String>(0))?;
    let types = names.map(|name| Ok(TaskType::new(name?).ok()));
    let types: Vec<_> = types.collect::<rusqlite::Result<_>>()?;
    Ok(types.into_iter().flatten().collect())
}
