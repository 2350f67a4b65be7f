//! Stores on a real PostgreSQL server, on its clock.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use delayq_core::store::StoreOptions;
use delayq_core::{Store, TaskId, TaskType};
use delayq_postgres::PostgresStore;
use delayq_testing::contract::{Damage, Damageable, StoreUnderTest};

use crate::pgbouncer::Pgbouncer;
use crate::postgres_server::PostgresServer;

/// Stores in the database that all tests of a process share; each test has a namespace of its own.
#[derive(Clone, Copy, Debug, Default)]
pub struct Postgres;

#[async_trait]
impl StoreUnderTest for Postgres {
    async fn open(&self, options: StoreOptions) -> Arc<dyn Store> {
        let url = format!("{}?connections=4", PostgresServer::shared().url());
        PostgresStore::connect(&url, options).await.unwrap()
    }

    async fn advance(&self, span: Duration) {
        tokio::time::sleep(span).await;
    }
}

/// The same behind a pooler in transaction mode, if one is installed.
#[derive(Clone, Copy, Debug)]
pub enum PooledPostgres {
    /// With a direct connection for wake-ups.
    Hearing,
    /// Without one.
    Deaf,
}

#[async_trait]
impl StoreUnderTest for PooledPostgres {
    async fn open(&self, options: StoreOptions) -> Arc<dyn Store> {
        let server = PostgresServer::shared();
        let Some(pooler) = Pgbouncer::shared() else {
            return Postgres.open(options).await;
        };
        let listen = match self {
            Self::Hearing => server.url(),
            Self::Deaf => "none".to_owned(),
        };
        let url = format!("{}?connections=4&listen={listen}", pooler.url());
        PostgresStore::connect(&url, options).await.unwrap()
    }

    async fn advance(&self, span: Duration) {
        tokio::time::sleep(span).await;
    }
}

#[async_trait]
impl Damageable for Postgres {
    /// A place is lost with the state. A record that is gone leaves nothing behind.
    async fn damage(
        &self,
        options: &StoreOptions,
        task_type: &TaskType,
        id: &TaskId,
        damage: Damage,
    ) {
        let change = match damage {
            Damage::Message => "UPDATE delayq.tasks SET message = message || '\\x00'::bytea",
            Damage::Record => "DELETE FROM delayq.tasks",
            Damage::Place => "UPDATE delayq.tasks SET state = -1",
        };
        let sql = format!(
            "{change} WHERE id = '{id}' AND type = (SELECT id FROM delayq.types \
             WHERE namespace = '{}' AND name = '{task_type}') RETURNING id",
            options.namespace
        );
        let changed = PostgresServer::shared().sql("postgres", &sql);
        assert_eq!(changed.trim(), id.as_str());
    }
}
