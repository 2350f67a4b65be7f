//! A server whose settings break a promise is refused, with the line to change.

use delayq_core::store::{Durability, StoreOptions};
use delayq_core::{Error, Store};
use delayq_redis::RedisStore;
use delayq_tests::cluster_set::{ClusterOptions, ClusterSet};
use delayq_tests::redis_server::{Persistence, RedisServer};
use delayq_tests::redis_user;

use super::{accept, job, options, raw, run};

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
    let message = refusal(&server, Durability::Replicated).await;
    assert!(
        message.contains("set `min-replicas-to-write 1` in redis.conf"),
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

/// The URL says how replicas confirm, the class that none is waited for: found by a user who took
/// the one for the other.
#[tokio::test]
async fn replicas_that_nobody_waits_for_are_refused() {
    let server = RedisServer::start(Persistence::None, &[]);
    for option in ["replicas=2", "confirm=synced"] {
        let url = format!("{}?{option}", server.url());
        let refused = RedisStore::connect(&url, wanting(Durability::Memory)).await;
        let error = refused.unwrap_err();
        assert!(
            matches!(error, Error::InvalidInput { .. }),
            "{option}: {error}"
        );
        assert!(
            error
                .to_string()
                .contains("ask for durability `replicated`"),
            "{error}"
        );
    }
}

#[tokio::test]
async fn a_node_of_a_cluster_is_refused() {
    let server = RedisServer::start(Persistence::None, &["--cluster-enabled", "yes"]);
    let message = refusal(&server, Durability::Memory).await;
    assert!(
        message.contains("write redis-cluster://HOST:PORT"),
        "{message}"
    );
}

#[tokio::test]
async fn a_cluster_is_refused_for_one_node_that_throws_keys_away() {
    let layout = ClusterOptions {
        replicas: 0,
        ..ClusterOptions::default()
    };
    let cluster = ClusterSet::start(layout).await;
    for node in &cluster.nodes {
        let mut redis = raw(node).await;
        run::<()>(&mut redis, "CONFIG SET maxmemory-policy allkeys-lru").await;
        let refused = RedisStore::connect(&cluster.url(), options()).await;
        let error = refused.unwrap_err();
        assert!(matches!(error, Error::Misconfigured { .. }), "{error}");
        let place = format!("127.0.0.1:{}", node.port());
        assert!(error.to_string().contains(&place), "{error}");
        run::<()>(&mut redis, "CONFIG SET maxmemory-policy noeviction").await;
    }
    RedisStore::connect(&cluster.url(), options())
        .await
        .unwrap();
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

/// Replicas of `server`, all of them connected.
async fn add_replicas(server: &RedisServer, count: usize) -> Vec<RedisServer> {
    let master = format!("127.0.0.1 {}", server.port());
    let start = |_| RedisServer::start(Persistence::None, &["--replicaof", &master]);
    let replicas: Vec<_> = (0..count).map(start).collect();
    let mut redis = raw(server).await;
    // Waits until each has what is written now.
    run::<()>(&mut redis, "SET somebody 1").await;
    let confirmed: usize = run(&mut redis, &format!("WAIT {count} 0")).await;
    assert_eq!(confirmed, count);
    replicas
}

#[tokio::test]
async fn a_master_that_does_not_need_its_replicas_is_refused_where_they_have_to_confirm() {
    let server = RedisServer::start(Persistence::None, &[]);
    let url = format!("{}?replicas=2", server.url());
    let connect = || RedisStore::connect(&url, wanting(Durability::Replicated));
    let message = connect().await.unwrap_err().to_string();
    assert!(message.contains("min-replicas-to-write is 0"), "{message}");
    let mut redis = raw(&server).await;
    run::<()>(&mut redis, "CONFIG SET min-replicas-to-write 1").await;
    let message = connect().await.unwrap_err().to_string();
    assert!(message.contains("min-replicas-to-write is 1"), "{message}");
    run::<()>(&mut redis, "CONFIG SET min-replicas-to-write 2").await;
    let error = connect().await.unwrap_err();
    assert!(matches!(error, Error::Unavailable { .. }), "{error}");
    let message = error.to_string();
    assert!(
        message.contains("0 of its replicas are connected, and 2"),
        "{message}"
    );
    run::<()>(&mut redis, "CONFIG SET min-replicas-to-write 0").await;
    let _replicas = add_replicas(&server, 2).await;
    run::<()>(&mut redis, "CONFIG SET min-replicas-to-write 2").await;
    let store = connect().await.unwrap();
    assert_eq!(store.durability(), Durability::Replicated);
    run::<()>(&mut redis, "CONFIG SET min-replicas-max-lag 0").await;
    let error = store.check().await.unwrap_err();
    assert!(
        error.to_string().contains("min-replicas-max-lag 10"),
        "{error}"
    );
}

/// Rights of the guide without those that a managed server forbids.
fn without(hidden: &[&str]) -> String {
    let rights = redis_user::rights().split(' ');
    rights
        .filter(|right| !hidden.contains(right))
        .collect::<Vec<_>>()
        .join(" ")
}

#[tokio::test]
async fn what_a_server_does_not_show_is_asserted() {
    let server = RedisServer::start(Persistence::Always, &[]);
    for (hidden, wanted, asserted) in [
        (
            &["+info", "+config|get"][..],
            Durability::Process,
            "process",
        ),
        (&["+info", "+config|get"], Durability::Memory, "memory"),
        (&["+info", "+config|get"], Durability::Disk, "disk"),
        (&["+config|get"], Durability::Disk, "disk"),
    ] {
        let url = redis_user::add(&server, "app", &without(hidden));
        let refused = RedisStore::connect(&url, wanting(wanted)).await;
        let error = refused.unwrap_err();
        assert!(matches!(error, Error::Misconfigured { .. }), "{error}");
        let assertion = format!("?assume={asserted}");
        assert!(error.to_string().contains(&assertion), "{error}");
        let url = format!("{url}{assertion}");
        let store = RedisStore::connect(&url, wanting(wanted)).await.unwrap();
        assert_eq!(store.durability(), wanted);
        accept(&store, job(&format!("{asserted}-{}", hidden.len()))).await;
        store.check().await.unwrap();
    }
}

#[tokio::test]
async fn a_server_whose_commands_have_other_names_is_as_good_as_one_that_hides_them() {
    let server = RedisServer::start(
        Persistence::EverySecond,
        &[
            "--rename-command",
            "INFO",
            "a",
            "--rename-command",
            "CONFIG",
            "b",
        ],
    );
    let message = refusal(&server, Durability::Process).await;
    assert!(message.contains("forbidden or renamed"), "{message}");
    assert!(
        message.contains("`?assume=process` behind the URL"),
        "{message}"
    );
    let url = format!("{}?assume=process", server.url());
    let store = RedisStore::connect(&url, StoreOptions::default())
        .await
        .unwrap();
    assert_eq!(store.durability(), Durability::Process);
}

#[tokio::test]
async fn what_one_command_shows_needs_no_assertion() {
    let server = RedisServer::start(Persistence::Always, &[]);
    let url = redis_user::add(&server, "app", &without(&["+config|get"]));
    let store = RedisStore::connect(&url, StoreOptions::default())
        .await
        .unwrap();
    assert_eq!(
        store.durability(),
        Durability::Process,
        "it does not show appendfsync"
    );
    let url = redis_user::add(&server, "app", &without(&["+info"]));
    let store = RedisStore::connect(&url, wanting(Durability::Disk))
        .await
        .unwrap();
    assert_eq!(store.durability(), Durability::Disk);
}

#[tokio::test]
async fn an_assertion_that_contradicts_what_the_server_shows_is_refused() {
    let server = RedisServer::start(Persistence::EverySecond, &[]);
    let url = format!("{}?assume=disk", server.url());
    let error = RedisStore::connect(&url, options()).await.unwrap_err();
    assert!(matches!(error, Error::Misconfigured { .. }), "{error}");
    assert!(
        error.to_string().contains("appendfsync is everysec"),
        "{error}"
    );
    assert!(error.to_string().contains("or assume `process`"), "{error}");
    let url = format!("{}?assume=replicated", server.url());
    let error = RedisStore::connect(&url, options()).await.unwrap_err();
    assert!(matches!(error, Error::InvalidInput { .. }), "{error}");
    assert!(
        error
            .to_string()
            .contains("ask for durability `replicated`"),
        "{error}"
    );
}
