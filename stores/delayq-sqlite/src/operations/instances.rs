//! List of running instances: a table of its own.

use std::time::Duration;

use delayq_core::presence::{InstanceId, InstanceInfo, MAX_INSTANCES, decode, encode};
use delayq_core::time::Timestamp;

use crate::error::Outcome;
use crate::rows::{Tx, signed};

const PUT: &str = "INSERT OR REPLACE INTO instances (namespace, id, seen, expires, info) \
     VALUES (?1, ?2, ?3, ?4, ?5)";
const REMOVE: &str = "DELETE FROM instances WHERE namespace = ?1 AND id = ?2";
const REMOVE_SILENT: &str = "DELETE FROM instances WHERE namespace = ?1 AND expires <= ?2";
const SELECT: &str = "SELECT id, seen, info FROM instances \
     WHERE namespace = ?1 AND expires > ?2 ORDER BY id LIMIT ?3";

pub(crate) fn announce(tx: &Tx<'_>, instance: &InstanceInfo, holds: Duration) -> Outcome<()> {
    let (namespace, now) = (tx.context.namespace.as_str(), tx.now());
    let mut remove = tx.connection.prepare_cached(REMOVE_SILENT)?;
    remove.execute((namespace, now.as_millis()))?;
    let (id, expires) = (instance.id.as_str(), now.plus(holds).as_millis());
    let mut put = tx.connection.prepare_cached(PUT)?;
    put.execute((namespace, id, now.as_millis(), expires, encode(instance)))?;
    Ok(())
}

pub(crate) fn withdraw(tx: &Tx<'_>, id: &InstanceId) -> Outcome<()> {
    let mut remove = tx.connection.prepare_cached(REMOVE)?;
    remove.execute((tx.context.namespace.as_str(), id.as_str()))?;
    Ok(())
}

pub(crate) fn instances(tx: &Tx<'_>) -> Outcome<Vec<InstanceInfo>> {
    let now = tx.now().as_millis();
    let key = (tx.context.namespace.as_str(), now, signed(MAX_INSTANCES));
    let mut select = tx.connection.prepare_cached(SELECT)?;
    let rows = select.query_map(key, |row| {
        let (seen, info): (i64, String) = (row.get(1)?, row.get(2)?);
        Ok(decode(
            row.get(0)?,
            Timestamp::from_millis(seen),
            info.as_bytes(),
        ))
    })?;
    let instances: Vec<_> = rows.collect::<rusqlite::Result<_>>()?;
    Ok(instances.into_iter().flatten().collect())
}
