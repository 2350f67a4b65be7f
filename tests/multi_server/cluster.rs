//! Nodes of a cluster that die or hang, each with a replica that confirms every write.

use delayq_core::Operate;
use std::time::Duration;

use async_trait::async_trait;
use delayq_core::operate::TypeStats;
use delayq_core::store::{Store, StoreOptions};
use delayq_plugin::{
    Clock, DelayQueueJob, DelayQueuePlugin, SystemClock, TaskContext, TaskResult,
    TaskSubmitService, TaskWorker, WorkerOptions, seconds,
};
use delayq_redis::RedisStore;
use delayq_tests::cluster_set::{ClusterOptions, ClusterSet};
use delayq_tests::redis_server::{Persistence, RedisServer};
use delayq_tests::rig::until;

use super::application::Application;

const NODE_TIMEOUT: Duration = seconds(1);
/// How long after its return a node may take to copy everything, and to be heard of by its master.
const COPY: Duration = seconds(2);

async fn start() -> ClusterSet {
    ClusterSet::start(ClusterOptions {
        persistence: Persistence::None,
        extra: vec!["--min-replicas-to-write".to_owned(), "1".to_owned()],
        ..ClusterOptions::default()
    })
    .await
}

/// Takes the node of a type away, and in the soak then that of another one, until another node has
/// replaced it, which needs a replica of its own then before it can acknowledge anything.
async fn replaced(take: fn(&mut RedisServer), give_back: fn(&mut RedisServer)) {
    let mut set = start().await;
    let mut application = Application::start(&set.url()).await;
    let began = SystemClock.now();
    let types: &[&str] = if cfg!(feature = "soak") {
        &["a", "shared"]
    } else {
        &["shared"]
    };
    for task_type in types {
        let slot = set.slot_of(&format!("{{default/{task_type}}}")).await;
        let old = set.node_of(slot).await;
        let from = SystemClock.now();
        take(&mut set.nodes[old]);
        set.failed_over(old, slot).await;
        give_back(&mut set.nodes[old]);
        application.survives(from).await;
        set.whole().await;
    }
    application.end(began, NODE_TIMEOUT + COPY, Vec::new).await;
}

#[tokio::test]
async fn a_killed_node_loses_nothing_that_was_acknowledged() {
    replaced(RedisServer::kill, RedisServer::restart).await;
}

#[cfg_attr(feature = "soak", tokio::test)]
async fn a_node_that_hangs_loses_nothing_that_was_acknowledged() {
    replaced(RedisServer::stop, RedisServer::resume).await;
}

/// The tasks of a node that is away wait; those of the others need not wait for it, not even at a
/// start.
#[cfg_attr(feature = "soak", tokio::test)]
async fn an_instance_starts_while_a_node_is_away() {
    let mut set = ClusterSet::start(ClusterOptions {
        node_timeout_ms: 60_000,
        extra: ["--cluster-require-full-coverage", "no"]
            .map(String::from)
            .to_vec(),
        ..ClusterOptions::default()
    })
    .await;
    let of = async |tag: &str| set.node_of(set.slot_of(tag).await).await;
    let list = of("{default}").await;
    let mut others = Vec::new();
    for name in (0..).map(|n| format!("type-{n}")).take(40) {
        others.push((of(&format!("{{default/{name}}}")).await, name));
    }
    let there = others.iter().find(|(node, _)| *node == list).unwrap();
    let gone = others.iter().find(|(node, _)| *node != list).unwrap();
    let (there, away, gone) = (there.1.clone(), gone.1.clone(), gone.0);
    set.nodes[gone].kill();
    let options = StoreOptions {
        call_timeout: seconds(1),
        ..StoreOptions::default()
    };
    let store = RedisStore::connect(&set.url(), options).await.unwrap();
    let service = TaskSubmitService::new(store.clone());
    service.send(DelayQueueJob::raw(&there, "")).await.unwrap();
    let refused = service.send(DelayQueueJob::raw(&away, "")).await;
    assert!(refused.unwrap_err().is_transient());
    // The bound is put into the store when its node is back.
    let options = WorkerOptions {
        max_pending: Some(1_000),
        ..WorkerOptions::default()
    };
    let plugin = DelayQueuePlugin::builder()
        .without_registered_workers()
        .store(store.clone())
        .worker(&away, options, Diligent)
        .worker(&there, WorkerOptions::default(), Diligent);
    let plugin = plugin.start().await.unwrap();
    let health = store.check().await.unwrap_err();
    let port = set.nodes[gone].port().to_string();
    assert!(health.to_string().contains(&port), "{health}");
    set.nodes[gone].restart();
    set.whole().await;
    service.send(DelayQueueJob::raw(&away, "")).await.unwrap();
    store.check().await.unwrap();
    let (away, there) = (away.parse().unwrap(), there.parse().unwrap());
    until("both types have no task left", async || {
        let counts = [store.stats(&away).await, store.stats(&there).await];
        let is_over = |stats: &TypeStats| stats.scheduled + stats.running == 0;
        let mut counts = counts.iter();
        counts
            .all(|stats| stats.as_ref().is_ok_and(is_over))
            .then_some(())
    })
    .await;
    plugin.shutdown(seconds(1)).await;
}

struct Diligent;

#[async_trait]
impl TaskWorker for Diligent {
    async fn invoke(&self, _message: &str, _cx: &TaskContext) -> TaskResult {
        Ok(())
    }
}

#[tokio::test]
async fn an_instance_does_not_start_while_no_node_is_there() {
    let mut set = start().await;
    for node in &mut set.nodes {
        node.kill();
    }
    let options = StoreOptions {
        call_timeout: seconds(1),
        ..StoreOptions::default()
    };
    let refused = RedisStore::connect(&set.url(), options).await.unwrap_err();
    assert!(refused.is_transient(), "{refused}");
}
