//! The instances that are there: a table of their own.

use std::time::Duration;

use super::error::Outcome;
use super::tx::{Tx, sql_count};
use crate::store::instance::{decode, encode};
use crate::store::{InstanceId, InstanceInfo, MAX_INSTANCES};
use crate::time::Timestamp;

const PUT: &str = "INSERT OR REPLACE INTO instances (namespace, id, seen, expires, info) \
     VALUES (?1, ?2, ?3, ?4, ?5)";
const REMOVE: &str = "DELETE FROM instances WHERE namespace = ?1 AND id = ?2";
const REMOVE_SILENT: &str = "DELETE FROM instances WHERE namespace = ?1 AND expires <= ?2";
const SELECT: &str = "SELECT id, seen, info FROM instances \
     WHERE namespace = ?1 AND expires > ?2 ORDER BY id LIMIT ?3";

impl Tx<'_> {
    pub(super) fn announce(&self, instance: &InstanceInfo, holds: Duration) -> Outcome<()> {
        let (namespace, now) = (self.world.namespace.as_str(), self.now());
        let mut remove = self.connection.prepare_cached(REMOVE_SILENT)?;
        remove.execute((namespace, now.as_millis()))?;
        let (id, expires) = (instance.id.as_str(), now.plus(holds).as_millis());
        let mut put = self.connection.prepare_cached(PUT)?;
        put.execute((namespace, id, now.as_millis(), expires, encode(instance)))?;
        Ok(())
    }

    pub(super) fn withdraw(&self, id: &InstanceId) -> Outcome<()> {
        let mut remove = self.connection.prepare_cached(REMOVE)?;
        remove.execute((self.world.namespace.as_str(), id.as_str()))?;
        Ok(())
    }

    pub(super) fn instances(&self) -> Outcome<Vec<InstanceInfo>> {
        let now = self.now().as_millis();
        let key = (self.world.namespace.as_str(), now, sql_count(MAX_INSTANCES));
        let mut select = self.connection.prepare_cached(SELECT)?;
        let mut rows = select.query(key)?;
        let mut instances = Vec::new();
        while let Some(row) = rows.next()? {
            let (id, seen, info): (String, i64, String) = (row.get(0)?, row.get(1)?, row.get(2)?);
            instances.extend(decode(id, Timestamp::from_millis(seen), info.as_bytes()));
        }
        Ok(instances)
    }
}
