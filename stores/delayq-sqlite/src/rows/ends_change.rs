//! A change of the queue of recorded ends, and the bound of the queue.

use delayq_core::history::DEFAULT_HISTORY_BUFFER;
use rusqlite::Connection;

use super::context::Context;
use super::number::signed;
use crate::error::Outcome;

const ADD: &str = "INSERT INTO ends_state (namespace, waiting, bytes, lost) \
     VALUES (?1, ?2, ?3, ?4) ON CONFLICT (namespace) DO UPDATE SET \
     waiting = waiting + excluded.waiting, bytes = bytes + excluded.bytes, \
     lost = lost + excluded.lost RETURNING bytes, most";
const LIMIT: &str = "INSERT INTO ends_state (namespace, most) VALUES (?1, ?2) \
     ON CONFLICT (namespace) DO UPDATE SET most = excluded.most";
const OLDEST: &str = "SELECT seq, bytes FROM ends INDEXED BY ends_place WHERE namespace = ?1 \
     ORDER BY seq LIMIT ?2";
const DROP: &str = "DELETE FROM ends WHERE seq = ?1";
/// Records that one look at the oldest ones finds.
const STEP: usize = 256;
/// Records that one step drops beside as many as it adds: a bound that was lowered is reached by
/// and by.
const MORE: i64 = 2_048;

/// A change of the queue of a namespace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct EndsChange {
    pub(crate) waiting: i64,
    pub(crate) bytes: i64,
    pub(crate) lost: i64,
}

impl EndsChange {
    /// Writes the change into the counts. Returns the bytes beyond the bound, below 0 if there are
    /// none.
    pub(crate) fn write(self, connection: &Connection, context: &Context) -> Outcome<i64> {
        let mut add = connection.prepare_cached(ADD)?;
        let namespace = context.namespace.as_str();
        let values = (namespace, self.waiting, self.bytes, self.lost);
        let now: (i64, Option<i64>) =
            add.query_row(values, |row| Ok((row.get(0)?, row.get(1)?)))?;
        Ok(now.0.saturating_sub(limit_of(now.1)))
    }

    /// Writes the change, and drops the oldest records beyond the bound.
    pub(super) fn finish(self, connection: &Connection, context: &Context) -> Outcome<()> {
        if self == Self::default() {
            return Ok(());
        }
        let mut beyond = self.write(connection, context)?;
        let mut steps = self.waiting.max(0).saturating_add(MORE);
        while beyond > 0 && steps > 0 {
            let dropped = drop_oldest(connection, context, beyond)?;
            if dropped == Self::default() {
                return Ok(());
            }
            steps -= dropped.lost;
            beyond = dropped.write(connection, context)?;
        }
        Ok(())
    }
}

/// The bound as it is stored, in bytes.
pub(crate) fn limit_of(stored: Option<i64>) -> i64 {
    stored.unwrap_or(signed(DEFAULT_HISTORY_BUFFER))
}

/// Writes the bound for all users of the file.
pub(crate) fn set_limit(connection: &Connection, context: &Context, bytes: u64) -> Outcome<()> {
    let mut set = connection.prepare_cached(LIMIT)?;
    set.execute((context.namespace.as_str(), signed(bytes)))?;
    Ok(())
}

/// Drops some of the oldest records: as many as have these bytes, or a step of them.
fn drop_oldest(connection: &Connection, context: &Context, bytes: i64) -> Outcome<EndsChange> {
    let mut oldest = connection.prepare_cached(OLDEST)?;
    let key = (context.namespace.as_str(), signed(STEP));
    let found = oldest.query_map(key, |row| Ok((row.get(0)?, row.get(1)?)))?;
    let found: Vec<(i64, i64)> = found.collect::<rusqlite::Result<_>>()?;
    let mut change = EndsChange::default();
    for (seq, size) in found {
        if -change.bytes >= bytes {
            break;
        }
        connection.prepare_cached(DROP)?.execute([seq])?;
        change.waiting -= 1;
        change.bytes -= size;
        change.lost += 1;
    }
    Ok(change)
}
