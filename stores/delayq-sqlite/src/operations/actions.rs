//! Log of actions: a table of its own.

use delayq_core::chronicle::{
    Action, LoggedAction, MAX_ACTION_PAGE, MAX_ACTIONS, decode_action, encode_action,
};
use delayq_core::time::Timestamp;

use crate::error::Outcome;
use crate::rows::{Tx, signed};

const LAST: &str = "SELECT coalesce(max(number), 0) FROM actions WHERE namespace = ?1";
const ADD: &str = "INSERT INTO actions (namespace, number, at, action) VALUES (?1, ?2, ?3, ?4)";
const REMOVE_OLDEST: &str = "DELETE FROM actions WHERE namespace = ?1 AND number <= ?2";
const SELECT: &str = "SELECT number, at, action FROM actions \
     WHERE namespace = ?1 AND number < ?2 ORDER BY number DESC LIMIT ?3";

pub(crate) fn log(tx: &Tx<'_>, action: &Action) -> Outcome<()> {
    let namespace = tx.context.namespace.as_str();
    let mut last = tx.connection.prepare_cached(LAST)?;
    let last: i64 = last.query_row([namespace], |row| row.get(0))?;
    let number = last.saturating_add(1);
    let mut add = tx.connection.prepare_cached(ADD)?;
    add.execute((
        namespace,
        number,
        tx.now().as_millis(),
        encode_action(action),
    ))?;
    let mut remove = tx.connection.prepare_cached(REMOVE_OLDEST)?;
    remove.execute((namespace, number.saturating_sub(signed(MAX_ACTIONS))))?;
    Ok(())
}

pub(crate) fn actions(
    tx: &Tx<'_>,
    before: Option<u64>,
    limit: usize,
) -> Outcome<Vec<LoggedAction>> {
    let namespace = tx.context.namespace.as_str();
    let key = (
        namespace,
        before.map_or(i64::MAX, signed),
        signed(limit.min(MAX_ACTION_PAGE)),
    );
    let mut select = tx.connection.prepare_cached(SELECT)?;
    let rows = select.query_map(key, |row| {
        let (number, at): (i64, i64) = (row.get(0)?, row.get(1)?);
        let action = decode_action(row.get_ref(2)?.as_bytes()?);
        Ok(LoggedAction::new(
            number.unsigned_abs(),
            Timestamp::from_millis(at),
            action,
        ))
    })?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}
