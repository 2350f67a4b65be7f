//! A server whose settings break a promise is refused, with the line to change.

use delayq_core::store::{Durability, RedisStore, StoreOptions};
use delayq_core::{Error, Store};
use delayq_tests::redis_server::{Persistence, RedisServer};

use super::{options, raw, run};

fn wanting(durability: Durability) -> StoreOptions {
    StoreOptions {
        durability,
        ..options()
    }
}

async fn refusal(server: &RedisServer, durability: Durability) -> String {
    let refused = RedisStore::connect(&server.url(), wanting(durability)).await;
    let error = refused.unwrap_err();
    assert!(matches!(error, Error::Misconfigured { .. }), "{error}");
    error.to_string()
}

#[tokio::test]
async fn a_server_without_a_file_is_refused_unless_tasks_may_be_lost() {
    let server = RedisServer::start(Persistence::None, &[]);
    let message = refusal(&server, Durability::Process).await;
    assert!(
        message.contains("set `appendonly yes` in redis.conf"),
        "{message}"
    );
    let message = refusal(&server, Durability::Disk).await;
    assert!(
        message.contains("`appendonly yes` and `appendfsync always`"),
        "{message}"
    );
    let store = RedisStore::connect(&server.url(), wanting(Durability::Memory))
        .await
        .unwrap();
    assert_eq!(store.durability(), Durability::Memory);
}

#[tokio::test]
async fn a_server_that_syncs_every_second_has_the_class_process() {
    let server = RedisServer::start(Persistence::EverySecond, &[]);
    let store = RedisStore::connect(&server.url(), StoreOptions::default())
        .await
        .unwrap();
    assert_eq!(store.durability(), Durability::Process);
    let message = refusal(&server, Durability::Disk).await;
    assert!(
        message.contains("set `appendfsync always` in redis.conf"),
        "{message}"
    );
}

#[tokio::test]
async fn a_server_that_syncs_before_it_answers_has_the_class_disk() {
    let server = RedisServer::start(Persistence::Always, &[]);
    let store = RedisStore::connect(&server.url(), wanting(Durability::Disk))
        .await
        .unwrap();
    assert_eq!(store.durability(), Durability::Disk);
}

#[tokio::test]
async fn a_server_that_throws_keys_away_is_refused() {
    let server = RedisServer::start(
        Persistence::EverySecond,
        &["--maxmemory-policy", "allkeys-lru"],
    );
    let message = refusal(&server, Durability::Memory).await;
    assert!(
        message.contains("set `maxmemory-policy noeviction` in redis.conf"),
        "{message}"
    );
}

#[tokio::test]
async fn a_server_that_cannot_wait_for_replicas_to_sync_is_refused() {
    let server = RedisServer::start(Persistence::None, &[]);
    let url = format!("{}?confirm=synced", server.url());
    let refused = RedisStore::connect(&url, wanting(Durability::Replicated)).await;
    let error = refused.unwrap_err();
    assert!(matches!(error, Error::Misconfigured { .. }), "{error}");
    let message = error.to_string();
    assert!(message.contains("use Redis 7.2 or newer"), "{message}");
}

#[tokio::test]
async fn a_node_of_a_cluster_is_refused() {
    let server = RedisServer::start(Persistence::None, &["--cluster-enabled", "yes"]);
    let message = refusal(&server, Durability::Memory).await;
    assert!(message.contains("redis-cluster://"), "{message}");
}

#[tokio::test]
async fn a_replica_is_refused() {
    let server = RedisServer::start(Persistence::None, &["--replicaof", "127.0.0.1 1"]);
    let refused = RedisStore::connect(&server.url(), options()).await;
    let error = refused.unwrap_err();
    assert!(matches!(error, Error::ReadOnly { .. }), "{error}");
    assert!(
        error.to_string().contains("connect to its primary"),
        "{error}"
    );
}

#[tokio::test]
async fn a_check_finds_settings_that_were_changed_later() {
    let server = RedisServer::start(Persistence::EverySecond, &[]);
    let store = RedisStore::connect(&server.url(), StoreOptions::default())
        .await
        .unwrap();
    let mut redis = raw(&server).await;
    store.check().await.unwrap();
    run::<()>(&mut redis, "CONFIG SET maxmemory-policy allkeys-lru").await;
    let error = store.check().await.unwrap_err();
    assert!(error.to_string().contains("noeviction"), "{error}");
    run::<()>(&mut redis, "CONFIG SET maxmemory-policy noeviction").await;
    run::<()>(&mut redis, "CONFIG SET appendonly no").await;
    let error = store.check().await.unwrap_err();
    assert!(error.to_string().contains("appendonly yes"), "{error}");
}
