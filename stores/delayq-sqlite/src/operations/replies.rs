//! Replies, in one table.

use delayq_core::name::TaskId;
use delayq_core::reply::{KeptReply, Reply};
use delayq_core::task::Lock;
use delayq_core::time::Timestamp;
use rusqlite::OptionalExtension;

use crate::error::Outcome;
use crate::rows::{Tx, TypeTasks, signed};

/// Number of expired replies removed with each new one: more than one, so that their number
/// shrinks.
const REMOVED_BESIDE: i64 = 4;
/// Number of expired replies removed by a check: some milliseconds of work.
const REMOVED_BY_CHECK: i64 = 1_000;

const KEEP: &str = "INSERT INTO replies (type, id, fence, at, until, content_type, body) \
     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7) ON CONFLICT (type, id) DO UPDATE SET \
     fence = excluded.fence, at = excluded.at, until = excluded.until, \
     content_type = excluded.content_type, body = excluded.body \
     WHERE replies.fence <= excluded.fence OR replies.until <= excluded.at";
const FIND: &str = "SELECT fence, at, content_type, body FROM replies \
     WHERE type = ?1 AND id = ?2 AND until > ?3";
const REMOVE: &str = "DELETE FROM replies WHERE (type, id) IN \
     (SELECT type, id FROM replies INDEXED BY replies_until WHERE until <= ?1 \
     ORDER BY until LIMIT ?2)";

pub(crate) fn keep(tasks: &TypeTasks<'_>, lock: &Lock, reply: &Reply) -> Outcome<bool> {
    let until = tasks.now.plus(reply.retention);
    tasks.execute(REMOVE, (tasks.now.as_millis(), REMOVED_BESIDE))?;
    let values = (
        tasks.row.id,
        lock.id.as_str(),
        signed(lock.fence),
        tasks.now.as_millis(),
        until.as_millis(),
        reply.content_type.as_str(),
        reply.body.as_slice(),
    );
    Ok(tasks.execute(KEEP, values)? > 0)
}

pub(crate) fn find(tasks: &TypeTasks<'_>, id: &TaskId) -> Outcome<Option<KeptReply>> {
    let mut select = tasks.sql(FIND)?;
    let key = (tasks.row.id, id.as_str(), tasks.now.as_millis());
    let found = select.query_row(key, |row| {
        let fence: i64 = row.get(0)?;
        Ok(KeptReply {
            fence: fence.unsigned_abs(),
            at: Timestamp::from_millis(row.get(1)?),
            content_type: row.get(2)?,
            body: row.get(3)?,
        })
    });
    Ok(found.optional()?)
}

/// Removes some expired replies, of all types.
pub(crate) fn remove_old(tx: &Tx<'_>) -> Outcome<()> {
    let now = tx.context.clock.now().as_millis();
    let mut remove = tx.connection.prepare_cached(REMOVE)?;
    remove.execute((now, REMOVED_BY_CHECK))?;
    Ok(())
}
