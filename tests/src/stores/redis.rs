//! Redis stores on a real server, on its clock.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use async_trait::async_trait;
use delayq_core::store::StoreOptions;
use delayq_core::{Store, TaskId, TaskType};
use delayq_redis::RedisStore;

use crate::redis_server::{Persistence, RedisServer};
use crate::redis_user;
use delayq_testing::contract::{Damage, Damageable, StoreUnderTest};

/// Stores on the server that all tests of a process share; each test has a namespace of its own.
#[derive(Clone, Copy, Debug, Default)]
pub struct Redis;

#[async_trait]
impl StoreUnderTest for Redis {
    async fn open(&self, options: StoreOptions) -> Arc<dyn Store> {
        connect(&RedisServer::shared().url(), options).await
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
        let url = RedisServer::shared().url();
        let tag = format!("{}/{task_type}", options.namespace);
        do_damage(&url, [tag], id, damage).await;
    }
}

/// Stores that pack every task, on the server that all tests of a process share.
#[derive(Clone, Copy, Debug, Default)]
pub struct PackedRedis;

#[async_trait]
impl StoreUnderTest for PackedRedis {
    async fn open(&self, options: StoreOptions) -> Arc<dyn Store> {
        let url = format!("{}?pack=all", RedisServer::shared().url());
        connect(&url, options).await
    }

    async fn advance(&self, span: Duration) {
        tokio::time::sleep(span).await;
    }
}

/// Stores on a server that knows nobody but the user of the guide.
#[derive(Clone, Copy, Debug, Default)]
pub struct RestrictedRedis;

impl RestrictedRedis {
    fn server() -> &'static RedisServer {
        static SERVER: OnceLock<RedisServer> = OnceLock::new();
        SERVER.get_or_init(|| {
            let server = RedisServer::start(Persistence::EverySecond, &[]);
            redis_user::restrict(&server);
            server
        })
    }
}

#[async_trait]
impl StoreUnderTest for RestrictedRedis {
    async fn open(&self, options: StoreOptions) -> Arc<dyn Store> {
        let url = redis_user::url(Self::server(), "delayq");
        connect(&url, options).await
    }

    async fn advance(&self, span: Duration) {
        tokio::time::sleep(span).await;
    }
}

#[async_trait]
impl Damageable for RestrictedRedis {
    async fn damage(
        &self,
        options: &StoreOptions,
        task_type: &TaskType,
        id: &TaskId,
        damage: Damage,
    ) {
        let url = redis_user::url(Self::server(), "admin");
        let tag = format!("{}/{task_type}", options.namespace);
        do_damage(&url, [tag], id, damage).await;
    }
}

pub(super) async fn connect(url: &str, options: StoreOptions) -> Arc<dyn Store> {
    RedisStore::connect(url, options).await.unwrap()
}

/// Damages the task in the shard that holds it, of those whose keys have these hash tags.
pub(super) async fn do_damage(
    url: &str,
    tags: impl IntoIterator<Item = String>,
    id: &TaskId,
    damage: Damage,
) {
    let client = ::redis::Client::open(url).unwrap();
    let mut connection = client.get_multiplexed_async_connection().await.unwrap();
    let mut stem = None;
    for tag in tags {
        let mut ask = ::redis::cmd("HEXISTS");
        ask.arg(format!("delayq:{{{tag}}}:tasks")).arg(id.as_str());
        if ask.query_async(&mut connection).await.unwrap() {
            stem = Some(format!("delayq:{{{tag}}}"));
        }
    }
    let stem = stem.unwrap();
    let (tasks, due) = (format!("{stem}:tasks"), format!("{stem}:due"));
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
