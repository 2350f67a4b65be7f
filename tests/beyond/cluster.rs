//! Nodes of a cluster that die or hang, each with a replica that confirms every write.

use std::time::Duration;

use delayq_plugin::{Clock, SystemClock, seconds};
use delayq_tests::cluster_set::{ClusterOptions, ClusterSet};
use delayq_tests::redis_server::{Persistence, RedisServer};

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

/// Takes the node of each of these types away, one after the other, until another one has replaced it, which needs
/// a replica of its own then before it can acknowledge anything.
async fn replaced(take: fn(&mut RedisServer), give_back: fn(&mut RedisServer)) {
    let mut set = start().await;
    let mut application = Application::start(&set.url()).await;
    let began = SystemClock.now();
    for task_type in ["a", "shared"] {
        let slot = set.slot_of(&format!("{{default/{task_type}}}")).await;
        let old = set.node_of(slot).await;
        let from = SystemClock.now();
        take(&mut set.nodes[old]);
        set.failed_over(old, slot).await;
        give_back(&mut set.nodes[old]);
        application.survives(from).await;
        set.whole().await;
    }
    application.end(began, NODE_TIMEOUT + COPY).await;
}

#[tokio::test]
async fn a_killed_node_loses_nothing_that_was_acknowledged() {
    replaced(RedisServer::kill, RedisServer::restart).await;
}

#[tokio::test]
async fn a_node_that_hangs_loses_nothing_that_was_acknowledged() {
    replaced(RedisServer::stop, RedisServer::resume).await;
}
