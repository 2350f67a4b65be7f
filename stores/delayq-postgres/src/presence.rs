//! The list of running instances.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use delayq_core::error::{Error, Result};
use delayq_core::presence::{InstanceId, InstanceInfo, MAX_INSTANCES, Presence, decode, encode};
use delayq_core::time::Timestamp;
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use crate::error::Outcome;
use crate::store::PostgresStore;

/// The longest id of an instance, in bytes, which fits into a row of the index. A server takes ids
/// of any text from its clients.
const MAX_ID_BYTES: usize = 1_000;

/// A row that another call has locked is being announced or removed by it, so nobody waits.
const ANNOUNCE: &str = "WITH clock AS MATERIALIZED (SELECT {s}.clock_us() / 1000 AS now), \
     removed AS ( \
         DELETE FROM {s}.instances WHERE ctid = ANY(ARRAY( \
             SELECT ctid FROM {s}.instances \
             WHERE namespace = $1 AND id <> $2 AND expires <= (SELECT now FROM clock) \
             FOR UPDATE SKIP LOCKED)) \
     ), named AS ( \
         INSERT INTO {s}.namespaces (name, retention) VALUES ($1, $6) \
         ON CONFLICT (name) DO UPDATE SET retention = excluded.retention \
         WHERE namespaces.retention <> excluded.retention \
     ) INSERT INTO {s}.instances (namespace, id, seen, expires, info) \
     SELECT $1, $2, now, least(now + $3, $4), $5 FROM clock \
     ON CONFLICT (namespace, id) DO UPDATE SET \
     seen = excluded.seen, expires = excluded.expires, info = excluded.info";
const WITHDRAW: &str = "DELETE FROM {s}.instances WHERE namespace = $1 AND id = $2";
const LIST: &str = "SELECT id, seen, info FROM {s}.instances \
     WHERE namespace = $1 AND expires > (SELECT {s}.clock_us() / 1000) ORDER BY id LIMIT $2";

/// True if a row can have this id.
fn is_storable(id: &InstanceId) -> bool {
    id.as_str().len() <= MAX_ID_BYTES && !id.as_str().contains('\0')
}

/// The instance in a row; `None` if it is unreadable.
fn instance(row: &Row) -> Outcome<Option<InstanceInfo>> {
    let seen = Timestamp::from_millis(row.try_get(1)?);
    Ok(decode(row.try_get(0)?, seen, row.try_get(2)?))
}

#[async_trait]
impl Presence for PostgresStore {
    async fn announce(&self, instance: &InstanceInfo, holds: Duration) -> Result<()> {
        if !is_storable(&instance.id) {
            let reason = format!("use up to {MAX_ID_BYTES} bytes, without a zero character");
            return Err(Error::invalid("instance id", reason));
        }
        let (announce, namespace) = (self.sql(ANNOUNCE), self.namespace.clone());
        let holds = Timestamp::ZERO.plus(holds).as_millis();
        let retention = self.retention_ms;
        let values: Arc<(String, Vec<u8>)> = Arc::new((
            instance.id.as_str().to_owned(),
            encode(instance).into_bytes(),
        ));
        self.connections
            .call(move |session| {
                let (announce, namespace) = (Arc::clone(&announce), namespace.clone());
                let values = Arc::clone(&values);
                Box::pin(async move {
                    let (id, info) = &*values;
                    let values = [
                        (&namespace.as_str() as _, Type::TEXT),
                        (id as _, Type::TEXT),
                        (&holds as _, Type::INT8),
                        (&Timestamp::MAX.as_millis() as _, Type::INT8),
                        (info as _, Type::BYTEA),
                        (&retention as _, Type::INT8),
                    ];
                    session.write(&announce, &values).await.map(drop)
                })
            })
            .await
    }

    async fn withdraw(&self, id: &InstanceId) -> Result<()> {
        if !is_storable(id) {
            return self.connections.check_open();
        }
        let (withdraw, namespace) = (self.sql(WITHDRAW), self.namespace.clone());
        let id = id.clone();
        self.connections
            .call(move |session| {
                let (withdraw, namespace) = (Arc::clone(&withdraw), namespace.clone());
                let id = id.clone();
                Box::pin(async move {
                    let values = [
                        (&namespace.as_str() as _, Type::TEXT),
                        (&id.as_str() as _, Type::TEXT),
                    ];
                    session.write(&withdraw, &values).await.map(drop)
                })
            })
            .await
    }

    async fn instances(&self) -> Result<Vec<InstanceInfo>> {
        let (list, namespace) = (self.sql(LIST), self.namespace.clone());
        self.connections
            .call(move |session| {
                let (list, namespace) = (Arc::clone(&list), namespace.clone());
                Box::pin(async move {
                    let most = i64::try_from(MAX_INSTANCES).unwrap_or(i64::MAX);
                    let values = [
                        (&namespace.as_str() as _, Type::TEXT),
                        (&most as _, Type::INT8),
                    ];
                    let rows = session.ask(&list, &values).await?;
                    let listed = rows.iter().map(instance);
                    listed.filter_map(Outcome::transpose).collect()
                })
            })
            .await
    }
}
