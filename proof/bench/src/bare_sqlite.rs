//! The least that any delayed queue does on SQLite, durably: the ceiling that delayq is compared
//! with.

use std::path::Path;
use std::time::Instant;

use delayq_plugin::{Clock, SystemClock, TaskId};
use rusqlite::{Connection, params};

use crate::Failure;
use crate::bare_redis::rate;
use crate::load::{BULK, Message, STEP, parts};

const SCHEMA: &str = "
    PRAGMA journal_mode = WAL;
    PRAGMA synchronous = FULL;
    CREATE TABLE task (id TEXT PRIMARY KEY, due INTEGER NOT NULL, locked INTEGER, message BLOB NOT NULL)
        WITHOUT ROWID;
    CREATE INDEX due ON task (due) WHERE locked IS NULL;";

/// Tasks a second, in transactions of as many tasks as one `send_all`.
pub(crate) fn submit_in_bulk(file: &Path, count: usize) -> Result<f64, Failure> {
    let mut connection = open(file)?;
    let started = Instant::now();
    submit(&mut connection, count)?;
    Ok(rate(count, started))
}

/// Tasks a second, claimed and settled in transactions of as many tasks as delayq claims at once.
pub(crate) fn drain(file: &Path, count: usize) -> Result<f64, Failure> {
    let mut connection = open(file)?;
    submit(&mut connection, count)?;
    let started = Instant::now();
    let (mut done, mut held) = (0, Vec::new());
    while done < count {
        let settled = held.len();
        held = settle_and_claim(&mut connection, &held)?;
        done += settled;
        if held.is_empty() && done < count {
            return Err(format!("the bare claim lost tasks: {done} of {count} done").into());
        }
    }
    Ok(rate(count, started))
}

fn open(file: &Path) -> Result<Connection, Failure> {
    let connection = Connection::open(file)?;
    connection.execute_batch(SCHEMA)?;
    Ok(connection)
}

fn submit(connection: &mut Connection, count: usize) -> Result<(), Failure> {
    let due = SystemClock.now().as_millis();
    for bulk in parts(count, BULK) {
        let transaction = connection.transaction()?;
        let mut insert =
            transaction.prepare_cached("INSERT INTO task (id, due, message) VALUES (?, ?, ?)")?;
        for number in bulk {
            let message = serde_json::to_vec(&Message::new(number))?;
            insert.execute(params![TaskId::generate().as_str(), due, message])?;
        }
        drop(insert);
        transaction.commit()?;
    }
    Ok(())
}

/// One transaction that ends the tasks held and takes the next ones.
fn settle_and_claim(connection: &mut Connection, held: &[String]) -> Result<Vec<String>, Failure> {
    let now = SystemClock.now().as_millis();
    let transaction = connection.transaction()?;
    let mut settle = transaction.prepare_cached("DELETE FROM task WHERE id = ?")?;
    for id in held {
        settle.execute([id])?;
    }
    let mut due = transaction.prepare_cached(
        "SELECT id, message FROM task WHERE locked IS NULL AND due <= ? ORDER BY due LIMIT ?",
    )?;
    let rows = due.query_map(params![now, i64::try_from(STEP)?], |row| {
        Ok((row.get::<_, String>(0)?, row.get::<_, Vec<u8>>(1)?))
    })?;
    let claimed = rows.collect::<Result<Vec<_>, _>>()?;
    let mut lock = transaction.prepare_cached("UPDATE task SET locked = ? WHERE id = ?")?;
    for (id, _) in &claimed {
        lock.execute(params![now, id])?;
    }
    drop((settle, due, lock));
    transaction.commit()?;
    Ok(claimed.into_iter().map(|(id, _)| id).collect())
}
