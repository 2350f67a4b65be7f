//! What the writer does between its groups: it hears of other processes, and forgets ended tasks.

use std::time::{Duration, Instant};

use rusqlite::Connection;

use super::busy;
use super::error::Outcome;
use super::schema;
use super::tx::Tx;
use super::writer::Writer;
use crate::name::TaskType;
use crate::store::Wakeup;

/// How often the writer looks whether other processes have committed: at most so much later than planned
/// a sooner task that they submitted starts here. A look costs microseconds and reads no file.
pub(super) const LOOK_AROUND: Duration = Duration::from_millis(100);

/// How often the writer forgets ended tasks of types in which nothing ends any more.
const TIDY_UP: Duration = Duration::from_secs(1);

/// Most ended tasks of a type forgotten at a time: some milliseconds of work.
const TIDY_TASKS: usize = 1_000;

/// Longest wait of the housekeeping for the write lock; it comes again.
const PATIENCE: Duration = Duration::from_millis(50);

const SELECT_RETAINING: &str = "SELECT name FROM types WHERE namespace = ?1 AND ended > 0";

/// When the housekeeping was last done, and what it saw.
#[derive(Debug)]
pub(super) struct Rounds {
    looked: Instant,
    tidied: Instant,
    data_version: Option<i64>,
}

impl Rounds {
    pub(super) fn new(connection: &Connection) -> Self {
        let now = Instant::now();
        Self {
            looked: now,
            tidied: now,
            data_version: data_version(connection).ok(),
        }
    }

    /// Does what has not been done for long enough. Failures are no calls' failures: the next call, or
    /// the next round, meets them again.
    pub(super) fn make(&mut self, writer: &Writer) {
        let now = Instant::now();
        if now.duration_since(self.looked) < LOOK_AROUND {
            return;
        }
        self.looked = now;
        busy::wait_until(now + PATIENCE);
        if let Err(fault) = self.hear_of_others(writer) {
            tracing::debug!(
                store = writer.world.store,
                ?fault,
                "cannot look for other processes"
            );
        }
        if now.duration_since(self.tidied) < TIDY_UP {
            return;
        }
        self.tidied = now;
        if let Err(fault) = tidy_up(writer) {
            writer.roll_back();
            tracing::debug!(
                store = writer.world.store,
                ?fault,
                "cannot forget ended tasks now"
            );
        }
    }

    /// Wakes all handlers when another process has committed: which one it touched is not known.
    fn hear_of_others(&mut self, writer: &Writer) -> Outcome<()> {
        let seen = self.data_version.replace(data_version(&writer.connection)?);
        if seen != self.data_version {
            writer.wake(Wakeup::All);
        }
        Ok(())
    }
}

/// Changes whenever another connection has committed.
fn data_version(connection: &Connection) -> Outcome<i64> {
    let mut select = connection.prepare_cached("PRAGMA data_version")?;
    Ok(select.query_row([], |row| row.get(0))?)
}

fn tidy_up(writer: &Writer) -> Outcome<()> {
    let mut heaps = Vec::new();
    let mut tx = Tx::new(&writer.connection, &writer.world);
    for task_type in retaining_types(writer)? {
        let bucket = tx.known(&task_type)?;
        if let Some(bucket) = bucket
            && bucket.has_to_forget()?
        {
            heaps.push(task_type);
        }
    }
    if heaps.is_empty() {
        return Ok(());
    }
    writer.connection.execute_batch("BEGIN IMMEDIATE")?;
    schema::check_version(&writer.connection, &writer.world.store)?;
    let mut tx = Tx::new(&writer.connection, &writer.world);
    for task_type in heaps {
        if let Some(mut bucket) = tx.known(&task_type)? {
            bucket.forget(TIDY_TASKS)?;
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
    let namespace = writer.world.namespace.as_str();
    let names = select.query_map([namespace], |row| row.get::<_, String>(0))?;
    let names: Vec<String> = names.collect::<rusqlite::Result<_>>()?;
    Ok(names
        .iter()
        .filter_map(|name| TaskType::new(name).ok())
        .collect())
}
