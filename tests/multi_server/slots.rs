//! Slots of a cluster that move from one node to another.

use std::sync::Arc;
use std::time::Duration;

use delayq_core::store::{StoreOptions, SubmitOutcome, Wakeup};
use delayq_core::{Bucket, DelayQueueJob, Limits, Result, Store, TaskType};
use delayq_plugin::{Clock, SystemClock, hours, millis, seconds};
use delayq_redis::RedisStore;
use delayq_tests::cluster_set::{ClusterOptions, ClusterSet};
use delayq_tests::instance::plan::{Chore, Plan};
use delayq_tests::instance::scene::Scene;
use delayq_tests::redis_server::RedisServer;
use delayq_tests::rig::soon;
use tokio::task::JoinSet;

use super::application::Application;

const INSTANCE: &str = env!("CARGO_BIN_EXE_instance");

async fn start() -> ClusterSet {
    ClusterSet::start(ClusterOptions {
        replicas: 0,
        ..ClusterOptions::default()
    })
    .await
}

async fn slot_of(set: &ClusterSet, task_type: &str) -> u16 {
    set.slot_of(&format!("{{default/{task_type}}}")).await
}

/// Moves a slot key by key, resting in between, so that calls come at every stage.
async fn move_slowly(set: &ClusterSet, slot: u16, to: usize, rest: Duration) {
    let from = set.node_of(slot).await;
    set.begin_move(slot, from, to).await;
    loop {
        tokio::time::sleep(rest).await;
        if set.move_keys(slot, 1, from, to).await == 0 {
            break;
        }
    }
    set.end_move(slot, from, to).await;
}

#[tokio::test]
async fn slots_that_move_under_load_also_to_a_new_node_lose_nothing_and_stall_no_handler() {
    let mut set = start().await;
    let mut application = Application::start_with(&set.url()).await;
    let began = SystemClock.now();
    let mut slots = vec![set.slot_of("{default}").await];
    for task_type in ["a", "b", "shared", "once"] {
        slots.push(slot_of(&set, task_type).await);
    }
    for slot in &slots {
        let to = (set.node_of(*slot).await + 1) % 3;
        move_slowly(&set, *slot, to, millis(20)).await;
    }
    application.survives(began).await;
    // To a node of which nobody knows yet, at once.
    let from = SystemClock.now();
    let node = set.add_node().await;
    for slot in slots {
        set.move_slots(slot..=slot, node).await;
    }
    application.survives(from).await;
    application.end(began, Duration::ZERO, Vec::new).await;
}

/// Two types of one node.
async fn neighbours(set: &ClusterSet) -> (String, String) {
    let slot = slot_of(set, "away").await;
    for n in 0.. {
        let name = format!("beside-{n}");
        let other = slot_of(set, &name).await;
        if other != slot && set.node_of(other).await == set.node_of(slot).await {
            return ("away".to_owned(), name);
        }
    }
    unreachable!("a third of all slots are of one node")
}

async fn submit(store: &RedisStore, task_type: &str, id: String) -> Result<SubmitOutcome> {
    let job = DelayQueueJob::raw(task_type, "m").id(id).after(hours(1));
    let task = job.into_task(&Limits::default(), SystemClock.now());
    store.submit(vec![task.unwrap()]).await.pop().unwrap()
}

/// Submits that all wait.
fn submit_many(
    store: &Arc<RedisStore>,
    task_type: &str,
    n: usize,
) -> JoinSet<Result<SubmitOutcome>> {
    let mut waiting = JoinSet::new();
    for n in 0..n {
        let (store, task_type) = (Arc::clone(store), task_type.to_owned());
        waiting.spawn(async move { submit(&store, &task_type, n.to_string()).await });
    }
    waiting
}

/// How long the submits wait that are held up.
const CALL_TIMEOUT: Duration = Duration::from_secs(5);

/// Submits one after the other, none of which is held up.
async fn submit_soon(store: &RedisStore, task_type: &str) {
    for n in 0..20 {
        let answer =
            tokio::time::timeout(CALL_TIMEOUT / 2, submit(store, task_type, n.to_string()));
        answer.await.expect("it is not held up").unwrap();
    }
}

#[tokio::test]
async fn a_slot_that_is_long_on_its_way_holds_up_no_other_type() {
    let set = start().await;
    let url = set.url();
    let store = RedisStore::connect(&url, StoreOptions::default());
    let store = store.await.unwrap();
    let (away, beside) = neighbours(&set).await;
    for task_type in [&away, &beside] {
        submit(&store, task_type, "first".to_owned()).await.unwrap();
    }
    let slot = slot_of(&set, &away).await;
    let from = set.node_of(slot).await;
    let to = (from + 1) % 3;
    set.begin_move(slot, from, to).await;
    assert_eq!(set.move_keys(slot, 1, from, to).await, 1);
    let mut waiting = submit_many(&store, &away, 100);
    tokio::task::yield_now().await;
    submit_soon(&store, &beside).await;
    while set.move_keys(slot, 10, from, to).await > 0 {}
    set.end_move(slot, from, to).await;
    while let Some(answer) = waiting.join_next().await {
        answer.unwrap().unwrap();
    }
}

#[cfg_attr(feature = "soak", tokio::test)]
async fn submits_that_wait_for_a_node_that_hangs_or_died_hold_up_no_others() {
    let mut set = ClusterSet::start(ClusterOptions {
        replicas: 0,
        // The others do not take it for dead.
        node_timeout_ms: 60_000,
        ..ClusterOptions::default()
    })
    .await;
    let options = StoreOptions {
        call_timeout: CALL_TIMEOUT,
        ..StoreOptions::default()
    };
    let store = RedisStore::connect(&set.url(), options).await.unwrap();
    let (away, beside) = neighbours(&set).await;
    let slot = slot_of(&set, &beside).await;
    let node = set.node_of(slot).await;
    set.move_slots(slot..=slot, (node + 1) % 3).await;
    for task_type in [&away, &beside] {
        submit(&store, task_type, "first".to_owned()).await.unwrap();
    }
    for take in [RedisServer::stop, RedisServer::kill] {
        take(&mut set.nodes[node]);
        let mut waiting = submit_many(&store, &away, 5_000);
        tokio::task::yield_now().await;
        submit_soon(&store, &beside).await;
        while let Some(answer) = waiting.join_next().await {
            let error = answer.unwrap().unwrap_err();
            assert!(error.is_transient(), "{error}");
        }
    }
}

/// Without wake-ups, a handler would see a sooner task with its next poll, and a wait for a wake-up
/// would not end.
#[tokio::test]
async fn wake_ups_are_heard_from_the_node_that_has_the_slot_by_now() {
    let mut set = start().await;
    let mut scene = Scene::on(INSTANCE, set.url());
    let service = scene.service().await;
    let plan = Plan {
        poll_ms: 60_000,
        ..scene.plan(["job"])
    };
    let mut instance = scene.start(&plan).await;
    Chore::Work(0).send(&service, "far", hours(1)).await;
    let slot = slot_of(&set, "job").await;
    let node = set.add_node().await;
    // A master that has lost its last slot becomes a replica.
    set.move_slots(slot + 1..=slot + 1, node).await;
    let mut started = 0;
    for to in [(set.node_of(slot).await + 1) % 3, node, 0, 1] {
        set.move_slots(slot..=slot, to).await;
        for _ in 0..3 {
            let asked = SystemClock.now();
            started += 1;
            let id = started.to_string();
            Chore::Work(0).send(&service, &id, Duration::ZERO).await;
            let start = instance.started(started).await;
            let wait = scene.between(asked.as_millis(), start.at);
            println!("on node {to}: started after {wait:?}");
            assert!(wait <= seconds(1), "{wait:?}");
        }
    }
}

#[tokio::test]
async fn who_listens_is_woken_after_its_connection_was_lost() {
    let set = start().await;
    let url = set.url();
    let connect = || RedisStore::connect(&url, StoreOptions::default());
    let (here, there) = (connect().await.unwrap(), connect().await.unwrap());
    let task_type = TaskType::new("job").unwrap();
    let mut wakeups = there.wakeups();
    let submit = async |id: &str, after: Duration| {
        let job = DelayQueueJob::raw("job", "m").id(id).after(after);
        let task = job.into_task(&Limits::default(), SystemClock.now());
        here.submit(vec![task.unwrap()])
            .await
            .pop()
            .unwrap()
            .unwrap();
    };
    submit("1", hours(9)).await;
    let woken = Some(Wakeup::Bucket(Bucket::whole(task_type)));
    for n in 2..5 {
        // Until the subscription is there again, what is sent is lost, and its return wakes
        // everybody.
        for node in 0..3 {
            let killed = set.ask::<u64>(node, &["CLIENT", "KILL", "TYPE", "pubsub"]);
            killed.await.unwrap();
        }
        submit(&n.to_string(), hours(9 - n)).await;
        let heard = async { while wakeups.next().await != woken {} };
        soon(&format!("the wake-up of round {n}"), heard).await;
    }
}
