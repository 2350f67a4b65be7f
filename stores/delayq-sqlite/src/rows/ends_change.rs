//! A change of the queue of recorded ends, and the bound of the queue.

use rusqlite::Connection;

use super::context::Context;
use super::number::signed;
use crate::error::Outcome;

const ADD: &str = "INSERT INTO ends_state (namespace, waiting, bytes, lost) \
     VALUES (?1, ?2, ?3, ?4) ON CONFLICT (namespace) DO UPDATE SET \
     waiting = waiting + excluded.waiting, bytes = bytes + excluded.bytes, \
     lost = lost + excluded.lost RETURNING bytes";
const OLDEST: &str = "SELECT seq, bytes FROM ends INDEXED BY ends_place WHERE namespace = ?1 \
     ORDER BY seq LIMIT ?2";
const DROP: &str = "DELETE FROM ends WHERE seq = ?1";
/// Records that one look at the oldest ones finds.
const STEP: usize = 256;

/// A change of the queue of a namespace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct EndsChange {
    pub(crate) waiting: i64,
    pub(crate) bytes: i64,
    pub(crate) lost: i64,
}

impl EndsChange {
    /// Writes the change into the counts. Returns the bytes that wait now.
    pub(crate) fn write(self, connection: &Connection, context: &Context) -> Outcome<i64> {
        let mut add = connection.prepare_cached(ADD)?;
        let namespace = context.namespace.as_str();
        let values = (namespace, self.waiting, self.bytes, self.lost);
        Ok(add.query_row(values, |row| row.get(0))?)
    }

    /// Writes the change, and drops the oldest records beyond the bound.
    pub(super) fn finish(self, connection: &Connection, context: &Context) -> Outcome<()> {
        if self == Self::default() {
            return Ok(());
        }
        let limit = signed(context.history_buffer);
        let mut waiting = self.write(connection, context)?;
        while waiting > limit {
            let dropped = drop_oldest(connection, context, waiting - limit)?;
            if dropped == Self::default() {
                return Ok(());
            }
            waiting = dropped.write(connection, context)?;
        }
        Ok(())
    }
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
