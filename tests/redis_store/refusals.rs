//! The server is there and does not do what it is asked: nothing is half done, and the error says
//! what to do.

use std::time::Duration;

use delayq_core::operate::DeadFilter;
use delayq_core::store::{AttemptEnd, Settlement};
use delayq_core::{Error, Lock, Operate, Presence, Store, TaskState, When};
use delayq_plugin::{DelayQueuePlugin, TaskContext, TaskResult, TaskWorker, WorkerOptions};
use delayq_redis::RedisStore;
use delayq_tests::redis_server::{Persistence, RedisServer};
use delayq_tests::rig::until;

use super::{
    TYPE, accept, claim, id, instance, job, key, open, raw, request, run, submit, task_type, whole,
};

#[tokio::test]
async fn a_server_that_became_a_replica_is_read_only_until_it_is_a_primary_again() {
    let server = RedisServer::start(Persistence::None, &[]);
    let store = open(&server).await;
    let mut redis = raw(&server).await;
    run::<()>(&mut redis, "REPLICAOF 127.0.0.1 1").await;
    let refused = submit(&store, job("1")).await.unwrap_err();
    assert!(matches!(refused, Error::ReadOnly { .. }), "{refused}");
    assert!(refused.to_string().contains("connect to its primary"));
    let unhealthy = store.check().await.unwrap_err();
    assert!(matches!(unhealthy, Error::ReadOnly { .. }), "{unhealthy}");
    run::<()>(&mut redis, "REPLICAOF NO ONE").await;
    accept(&store, job("1")).await;
}

#[tokio::test]
async fn a_full_server_refuses_submits_and_lets_the_rest_drain() {
    let server = RedisServer::start(Persistence::None, &[]);
    let store = open(&server).await;
    let mut redis = raw(&server).await;
    for n in 0..300 {
        accept(&store, job(&n.to_string())).await;
    }
    run::<()>(&mut redis, "CONFIG SET maxmemory 1").await;
    let refused = submit(&store, job("new")).await.unwrap_err();
    assert!(matches!(refused, Error::Full { .. }), "{refused}");
    assert!(refused.to_string().contains("raise maxmemory"), "{refused}");
    let mut done = 0;
    while done < 300 {
        let claimed = claim(&store).await.unwrap();
        let ends = claimed
            .tasks
            .into_iter()
            .map(|task| Settlement::new(task.lock, AttemptEnd::Done));
        let outcomes = store.settle(&whole(), ends.collect()).await.unwrap();
        done += outcomes.len();
    }
    run::<()>(&mut redis, "CONFIG SET maxmemory 0").await;
    accept(&store, job("new")).await;
}

struct Nothing;

#[async_trait::async_trait]
impl TaskWorker for Nothing {
    async fn invoke(&self, _message: &str, _cx: &TaskContext) -> TaskResult {
        Ok(())
    }
}

/// Found by a user: the plugin wanted to list its types first, so nobody could drain a full server.
#[tokio::test]
async fn a_plugin_starts_on_a_full_server_and_drains_it() {
    let server = RedisServer::start(Persistence::None, &[]);
    let store = open(&server).await;
    for n in 0..300 {
        accept(&store, job(&n.to_string())).await;
    }
    run::<()>(&mut raw(&server).await, "CONFIG SET maxmemory 1").await;
    let plugin = DelayQueuePlugin::builder()
        .without_registered_workers()
        .store(open(&server).await)
        .worker(TYPE, WorkerOptions::DEFAULT, Nothing)
        .worker("unheard.of", WorkerOptions::DEFAULT, Nothing);
    let plugin = plugin.start().await.unwrap();
    until("the last task", || async {
        let stats = store.stats(&task_type()).await.unwrap();
        (stats.scheduled + stats.running == 0).then_some(())
    })
    .await;
    plugin.shutdown(Duration::ZERO).await;
}

#[tokio::test]
async fn a_strangers_key_is_named_and_nothing_is_written() {
    let server = RedisServer::start(Persistence::None, &[]);
    let store = open(&server).await;
    let mut redis = raw(&server).await;
    for part in ["due", "tasks", "meta"] {
        run::<()>(&mut redis, "FLUSHALL").await;
        run::<()>(&mut redis, &format!("SET {} x", key(part))).await;
        let error = submit(&store, job("1")).await.unwrap_err();
        assert!(matches!(error, Error::Corrupt { .. }), "{part}: {error}");
        let left: Vec<String> = run(&mut redis, "KEYS delayq:{default/*").await;
        assert_eq!(left, [key(part)]);
    }
    let error = claim(&store).await.unwrap_err().to_string();
    assert!(error.starts_with(&key("meta")), "{error}");
    assert!(error.contains("it is a string, not a hash"), "{error}");
}

#[tokio::test]
async fn no_edge_writes_anything_when_a_key_that_it_needs_is_a_strangers() {
    let server = RedisServer::start(Persistence::None, &[]);
    let mut redis = raw(&server).await;
    for part in [
        "due", "running", "locks", "dead", "tasks", "trail", "meta", "gone",
    ] {
        run::<()>(&mut redis, "FLUSHALL").await;
        let store = open(&server).await;
        for n in ["held", "failed", "1", "2"] {
            accept(&store, job(n)).await;
        }
        let claimed = claim(&store).await.unwrap().tasks;
        let lock_of = |name| {
            let mut locks = claimed.iter().map(|task| &task.lock);
            locks.find(|lock| lock.id == id(name)).unwrap().clone()
        };
        let held = [lock_of("held"), lock_of("2")];
        let lock = lock_of("failed");
        let end = AttemptEnd::Dead {
            error: "no".to_owned(),
            succeeded: Vec::new(),
        };
        let settlement = vec![Settlement::new(lock, end)];
        store.settle(&whole(), settlement).await.unwrap();
        accept(&store, job("waits").after(Duration::from_hours(1))).await;
        // The next claim ends two tasks: one is poison, the other has expired.
        run::<u64>(&mut redis, &format!("ZADD {} 1 1", key("running"))).await;
        accept(&store, job("late").expires_after(Duration::ZERO)).await;
        run::<u64>(&mut redis, &format!("DEL {}", key(part))).await;
        run::<()>(&mut redis, &format!("SET {} x", key(part))).await;
        let mut refused = 0;
        for edge in 0..13 {
            let before = dump(&mut redis).await;
            if call_one(&store, edge, &held).await.is_err() {
                refused += 1;
                assert_eq!(
                    dump(&mut redis).await,
                    before,
                    "edge {edge} with a strange {part}"
                );
            }
        }
        assert!(refused > 0, "{part} is needed by some edge");
    }
}

/// Without an expired lock among them, whose task is looked at first.
#[tokio::test]
async fn a_claim_of_new_tasks_writes_nothing_when_a_key_that_it_needs_is_a_strangers() {
    let server = RedisServer::start(Persistence::None, &[]);
    let (store, mut redis) = (open(&server).await, raw(&server).await);
    for part in ["running", "locks", "tasks", "trail", "meta"] {
        run::<()>(&mut redis, "FLUSHALL").await;
        accept(&store, job("1")).await;
        run::<()>(&mut redis, &format!("SET {} x", key(part))).await;
        let before = dump(&mut redis).await;
        let error = claim(&store).await.unwrap_err();
        assert!(matches!(error, Error::Corrupt { .. }), "{part}: {error}");
        assert_eq!(dump(&mut redis).await, before, "{part}");
    }
}

/// One of the operations that write.
async fn call_one(store: &RedisStore, edge: usize, held: &[Lock; 2]) -> Result<(), Error> {
    let (usual, waits, all) = (task_type(), id("waits"), DeadFilter::all());
    let settlement = |lock: &Lock, end| Settlement::new(lock.clone(), end);
    let done = settlement(&held[0], AttemptEnd::Done);
    let dead = AttemptEnd::Dead {
        error: "no".to_owned(),
        succeeded: Vec::new(),
    };
    let dead = settlement(&held[1], dead);
    let mut request = request();
    request.max_lock_expiries = 1;
    match edge {
        0 => submit(store, job("new")).await.map(drop),
        1 => store.claim(&whole(), &request).await.map(drop),
        2 => store.settle(&whole(), vec![done]).await.map(drop),
        3 => store.update(&usual, &waits, vec![1]).await.map(drop),
        4 => store.cancel(&usual, &waits).await.map(drop),
        5 => store
            .requeue_dead(&usual, &all, Duration::ZERO)
            .await
            .map(drop),
        6 => store.settle(&whole(), vec![dead]).await.map(drop),
        7 => submit(store, job("failed").header("shop", "bonn").replace())
            .await
            .map(drop),
        8 => store.pause(&usual, None).await,
        9 => {
            let soon = When::After(Duration::from_mins(1));
            store.reschedule(&usual, &waits, soon).await.map(drop)
        }
        10 => store.discard_dead(&usual, &all).await.map(drop),
        11 => store.purge(&usual, TaskState::Dead).await.map(drop),
        _ => store.purge(&usual, TaskState::Scheduled).await.map(drop),
    }
}

#[tokio::test]
async fn no_instance_is_noted_or_forgotten_when_the_list_is_a_strangers() {
    let server = RedisServer::start(Persistence::None, &[]);
    let store = open(&server).await;
    let mut redis = raw(&server).await;
    let instance = instance();
    for key in ["instances", "seen"] {
        run::<()>(&mut redis, "FLUSHALL").await;
        store.announce(&instance, Duration::ZERO).await.unwrap();
        run::<()>(&mut redis, &format!("SET delayq:{{default}}:{key} x")).await;
        let before = dump(&mut redis).await;
        let refusals = [
            store.announce(&instance, Duration::from_hours(1)).await,
            store.withdraw(&instance.id).await,
        ];
        for refused in refusals {
            let error = refused.unwrap_err();
            assert!(matches!(error, Error::Corrupt { .. }), "{error}");
        }
        assert_eq!(dump(&mut redis).await, before, "{key}");
    }
}

/// Every key of the server with what it holds.
async fn dump(redis: &mut redis::aio::MultiplexedConnection) -> Vec<(String, Vec<u8>)> {
    let mut keys: Vec<String> = run(redis, "KEYS *").await;
    keys.sort();
    let mut all = Vec::new();
    for key in keys {
        let content: Vec<u8> = run(redis, &format!("DUMP {key}")).await;
        all.push((key, content));
    }
    all
}
