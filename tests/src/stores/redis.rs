//! Redis stores on a real server, on its clock.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use delayq_core::store::{RedisStore, StoreOptions};
use delayq_core::{Store, TaskId, TaskType};

use crate::contract::{Damage, Damageable, StoreUnderTest};
use crate::redis_server::RedisServer;

/// Stores on the server that all tests of a process share; each test has a namespace of its own.
#[derive(Clone, Copy, Debug, Default)]
pub struct Redis;

#[async_trait]
impl StoreUnderTest for Redis {
    async fn open(&self, options: StoreOptions) -> Arc<dyn Store> {
        let url = RedisServer::shared().url();
        RedisStore::connect(&url, options).await.unwrap()
    }

    async fn advance(&self, span: Duration) {
        tokio::time::sleep(span).await;
    }
}

#[async_trait]
impl Damageable for Redis {
    async fn damage(
        &self,
        options: &StoreOptions,
        task_type: &TaskType,
        id: &TaskId,
        damage: Damage,
    ) {
        let client = ::redis::Client::open(RedisServer::shared().url()).unwrap();
        let mut connection = client.get_multiplexed_async_connection().await.unwrap();
        let tag = format!("delayq:{{{}/{task_type}}}", options.namespace);
        let (tasks, due) = (format!("{tag}:tasks"), format!("{tag}:due"));
        let (command, key) = match damage {
            Damage::Message => ("HGET", &tasks),
            Damage::Record => ("HDEL", &tasks),
            Damage::Place => ("ZREM", &due),
        };
        let mut command = ::redis::cmd(command);
        command.arg(key).arg(id.as_str());
        if damage != Damage::Message {
            let removed: u64 = command.query_async(&mut connection).await.unwrap();
            assert_eq!(removed, 1);
            return;
        }
        let mut record: Vec<u8> = command.query_async(&mut connection).await.unwrap();
        *record.last_mut().unwrap() ^= 1;
        let mut write = ::redis::cmd("HSET");
        write.arg(&tasks).arg(id.as_str()).arg(record);
        write.exec_async(&mut connection).await.unwrap();
    }
}
