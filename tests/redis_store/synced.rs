//! Replicas confirm what they have on disk. Redis can wait for that from version 7.2 on: on an
//! older one these tests say that they are skipped.

use std::io::Write;
use std::sync::Arc;
use std::time::{Duration, Instant};

use delayq_core::store::{Durability, StoreOptions, SubmitOutcome};
use delayq_core::{Error, Result, Store};
use delayq_redis::RedisStore;
use delayq_tests::liveness::until_ok;
use delayq_tests::redis_server::{Persistence, RedisServer};
use delayq_tests::redis_user;

use super::access::use_every_operation;
use super::{accept, job, options, raw, run, submit};

const SYNCED: &str = "?confirm=synced";

fn replicated() -> StoreOptions {
    StoreOptions {
        durability: Durability::Replicated,
        ..options()
    }
}

/// Whether the server can wait so; if not, the output of the tests says which one is skipped.
async fn can_wait(server: &RedisServer, test: &str) -> bool {
    let known: Vec<redis::Value> = run(&mut raw(server).await, "COMMAND INFO WAITAOF").await;
    let can_wait = !matches!(known.as_slice(), [] | [redis::Value::Nil]);
    if !can_wait {
        // Past the capture of the output of a test that passes.
        let mut output = std::io::stderr();
        writeln!(
            output,
            "LEFT OUT: this server has no WAITAOF, which {test} needs"
        )
        .unwrap();
    }
    can_wait
}

/// A master and its replica, which both sync before they answer.
fn set() -> (RedisServer, RedisServer) {
    let master = RedisServer::start(Persistence::Always, &["--min-replicas-to-write", "1"]);
    let port = master.port().to_string();
    let follow = ["--replicaof", "127.0.0.1", &port];
    let replica = RedisServer::start(Persistence::Always, &follow);
    (master, replica)
}

/// Connects as soon as the replica follows.
async fn connect(url: &str) -> Arc<RedisStore> {
    let store = until_ok("a replica", || async {
        match RedisStore::connect(url, replicated()).await {
            Ok(store) => Ok(Ok(store)),
            Err(Error::Unavailable { detail, .. }) => Err(detail),
            Err(other) => Ok(Err(other)),
        }
    });
    store.await.unwrap()
}

#[tokio::test]
async fn what_is_acknowledged_is_on_the_disk_of_both() {
    let (master, mut replica) = set();
    if !can_wait(&master, "what_is_acknowledged_is_on_the_disk_of_both").await {
        return;
    }
    let store = connect(&(master.url() + SYNCED)).await;
    assert_eq!(store.durability(), Durability::Replicated);
    use_every_operation(&store).await;
    let count = 100;
    let mut took = Vec::new();
    for n in 0..count {
        let began = Instant::now();
        accept(&store, job(&format!("synced-{n}"))).await;
        took.push(began.elapsed());
    }
    // By itself a replica tells once a second how far it is, which is half a second for most. A
    // machine that stands still for a moment makes some late.
    took.sort_unstable();
    let quick = took[took.len() / 4];
    assert!(quick < Duration::from_millis(200), "{took:?}");
    let key = super::key("tasks");
    // All machines at once, of which only the replica's disk is left.
    drop(master);
    replica.restart();
    let tasks: u32 = run(&mut raw(&replica).await, &format!("HLEN {key}")).await;
    assert_eq!(tasks, count);
}

#[tokio::test]
async fn what_the_replica_has_not_synced_is_not_acknowledged() {
    let (master, replica) = set();
    let name = "what_the_replica_has_not_synced_is_not_acknowledged";
    if !can_wait(&master, name).await {
        return;
    }
    let store = connect(&(master.url() + SYNCED)).await;
    accept(&store, job("synced")).await;
    run::<()>(&mut raw(&replica).await, "CONFIG SET appendonly no").await;
    let received = connect(&master.url()).await;
    accept(&received, job("received")).await;
    let error = submit(&store, job("unsynced")).await.unwrap_err();
    assert!(error.is_indeterminate(), "{error}");
    let said = error.to_string();
    assert!(said.contains("0 of 1 replicas confirmed it"), "{said}");
    run::<()>(&mut raw(&replica).await, "CONFIG SET appendonly yes").await;
    // It is stored already, and counts once it is found in sync.
    let again = until_ok("the replica's file", || async {
        let outcome: Result<SubmitOutcome> = submit(&store, job("unsynced")).await;
        outcome.map_err(|error| error.to_string())
    });
    let again = again.await;
    assert!(
        matches!(again, SubmitOutcome::AlreadyExists { .. }),
        "{again:?}"
    );
}

#[tokio::test]
async fn the_right_to_wait_is_asked_for() {
    let (master, _replica) = set();
    if !can_wait(&master, "the_right_to_wait_is_asked_for").await {
        return;
    }
    let url = redis_user::add(&master, "app", redis_user::rights()) + SYNCED;
    let error = RedisStore::connect(&url, replicated()).await.unwrap_err();
    assert!(matches!(error, Error::Misconfigured { .. }), "{error}");
    assert!(error.to_string().contains("+waitaof"), "{error}");
    let rights = format!("{} +waitaof", redis_user::rights());
    let _ = redis_user::add(&master, "app", &rights);
    let store = connect(&url).await;
    use_every_operation(&store).await;
}

/// One that is too old, or that appends to no file.
#[tokio::test]
async fn a_server_that_cannot_wait_is_refused_with_what_to_change() {
    let server = RedisServer::start(Persistence::None, &["--min-replicas-to-write", "1"]);
    let url = server.url() + SYNCED;
    let error = RedisStore::connect(&url, replicated()).await.unwrap_err();
    assert!(matches!(error, Error::Misconfigured { .. }), "{error}");
    let said = error.to_string();
    assert!(
        said.contains("use Redis 7.2 or newer with `appendonly yes`"),
        "{said}"
    );
}
