//! A sharded type on a cluster of which one node hangs and nobody takes its place.

use delayq_core::Operate;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use delayq_core::operate::TypeSettings;
use delayq_core::store::{Durability, StoreOptions};
use delayq_plugin::{
    DelayQueueJob, DelayQueuePlugin, TaskContext, TaskResult, TaskState, TaskSubmitService,
    TaskType, TaskWorker, WorkerOptions, seconds,
};
use delayq_redis::RedisStore;
use delayq_tests::cluster_set::{ClusterOptions, ClusterSet};
use delayq_tests::redis_server::Persistence;
use delayq_tests::rig::until;

const TYPE: &str = "job";
const TASKS: usize = 30;
const LOCK: Duration = seconds(3);
/// How long each worker runs, unless it is cancelled.
const WORK: Duration = seconds(9);

/// What the workers have seen.
#[derive(Clone, Debug, Default)]
struct Notes {
    started: Arc<Mutex<Vec<String>>>,
    cancelled: Arc<Mutex<BTreeSet<String>>>,
}

#[async_trait]
impl TaskWorker for Notes {
    async fn invoke(&self, message: &str, cx: &TaskContext) -> TaskResult {
        self.started.lock().unwrap().push(message.to_owned());
        // The work outlasts two locks: that is its length, not a wait for something.
        if tokio::time::timeout(WORK, cx.cancelled()).await.is_ok() {
            self.cancelled.lock().unwrap().insert(message.to_owned());
        }
        Ok(())
    }
}

/// The tasks of the type that this node has.
async fn tasks_on(set: &ClusterSet, node: usize) -> BTreeSet<String> {
    let keys: Vec<String> = set.ask(node, &["KEYS", "delayq:*:tasks"]).await.unwrap();
    let mut ids = BTreeSet::new();
    for key in keys {
        let own: Vec<String> = set.ask(node, &["HKEYS", &key]).await.unwrap();
        ids.extend(own);
    }
    ids
}

async fn are_done(tasks: &TaskSubmitService, ids: &BTreeSet<String>) {
    for id in ids {
        until(&format!("the end of {id}"), || async {
            let info = tasks.find(TYPE, id.as_str()).await.ok()??;
            (info.state == TaskState::Done).then_some(())
        })
        .await;
    }
}

#[tokio::test]
async fn a_node_that_hangs_costs_the_shards_of_others_no_lock() {
    let mut set = ClusterSet::start(ClusterOptions {
        replicas: 0,
        node_timeout_ms: 60_000,
        persistence: Persistence::None,
        ..ClusterOptions::default()
    })
    .await;
    let options = StoreOptions {
        durability: Durability::Memory,
        ..StoreOptions::default()
    };
    let store = RedisStore::connect(&set.url(), options).await.unwrap();
    let task_type = TaskType::new(TYPE).unwrap();
    let settings = TypeSettings::default().shards(6);
    store.configure_type(&task_type, &settings).await.unwrap();
    let tasks = TaskSubmitService::new(store.clone());
    for n in 0..TASKS {
        let id = format!("{n:02}");
        let job = DelayQueueJob::raw(TYPE, id.clone()).id(id);
        tasks.send(job).await.unwrap();
    }
    // Not the one that holds the layout.
    let namespace = set.slot_of("{default}").await;
    let whole = set.slot_of(&format!("{{default/{TYPE}}}")).await;
    let needed = [set.node_of(namespace).await, set.node_of(whole).await];
    let node = (0..3).find(|node| !needed.contains(node)).unwrap();
    let silent = tasks_on(&set, node).await;
    let all: BTreeSet<_> = (0..TASKS).map(|n| format!("{n:02}")).collect();
    let healthy: BTreeSet<_> = all.difference(&silent).cloned().collect();
    assert!(!silent.is_empty() && !healthy.is_empty());

    let notes = Notes::default();
    let options = WorkerOptions {
        lock: LOCK,
        concurrency: 2 * TASKS,
        ..WorkerOptions::DEFAULT
    };
    let plugin = DelayQueuePlugin::builder().without_registered_workers();
    let plugin = plugin.store(store).worker(TYPE, options, notes.clone());
    let plugin = plugin.start().await.unwrap();
    until("the start of all", || async {
        (notes.started.lock().unwrap().len() == TASKS).then_some(())
    })
    .await;
    set.nodes[node].stop();
    are_done(&tasks, &healthy).await;
    let cancelled = notes.cancelled.lock().unwrap().clone();
    assert_eq!(cancelled, silent, "they cannot be extended, and no others");
    set.nodes[node].resume();
    are_done(&tasks, &silent).await;
    let mut started = notes.started.lock().unwrap().clone();
    started.retain(|id| healthy.contains(id));
    assert_eq!(started.len(), healthy.len(), "each ran once");
    plugin.shutdown(Duration::ZERO).await;
}
