//! Redis stores beyond one server: a cluster, and a master with replicas behind sentinels.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use async_trait::async_trait;
use delayq_core::Store;
use delayq_core::store::{Durability, StoreOptions};

use super::redis::connect;
use crate::cluster_set::{ClusterOptions, ClusterSet};
use crate::redis_server::Persistence;
use crate::sentinel_set::{SentinelOptions, SentinelSet};
use delayq_testing::contract::StoreUnderTest;

/// Stores on a cluster of three masters that all tests of a process share.
#[derive(Clone, Copy, Debug, Default)]
pub struct RedisCluster;

/// Stores on a master and a replica behind a sentinel, each of whose writes the replica confirms.
#[derive(Clone, Copy, Debug, Default)]
pub struct ReplicatedRedis;

/// Starts what takes a runtime once, on one of its own, so that it outlives the test that needs it
/// first.
fn shared<T: Send + Sync + 'static>(
    place: &'static OnceLock<T>,
    start: impl Future<Output = T> + Send + 'static,
) -> &'static T {
    place.get_or_init(|| {
        let thread = std::thread::spawn(|| {
            let mut runtime = tokio::runtime::Builder::new_current_thread();
            runtime.enable_all().build().unwrap().block_on(start)
        });
        thread.join().unwrap()
    })
}

#[async_trait]
impl StoreUnderTest for RedisCluster {
    async fn open(&self, options: StoreOptions) -> Arc<dyn Store> {
        static CLUSTER: OnceLock<ClusterSet> = OnceLock::new();
        let layout = ClusterOptions {
            replicas: 0,
            // Nobody is replaced here, however long one stands still.
            node_timeout_ms: 60_000,
            ..ClusterOptions::default()
        };
        let url = shared(&CLUSTER, ClusterSet::start(layout)).url();
        connect(&url, options).await
    }

    async fn advance(&self, span: Duration) {
        tokio::time::sleep(span).await;
    }
}

#[async_trait]
impl StoreUnderTest for ReplicatedRedis {
    async fn open(&self, options: StoreOptions) -> Arc<dyn Store> {
        static SET: OnceLock<SentinelSet> = OnceLock::new();
        let layout = SentinelOptions {
            servers: 2,
            sentinels: 1,
            down_after_ms: 60_000,
            persistence: Persistence::None,
            extra: vec!["--min-replicas-to-write".to_owned(), "1".to_owned()],
            ..SentinelOptions::default()
        };
        let url = shared(&SET, SentinelSet::start(layout)).url();
        let options = StoreOptions {
            durability: Durability::Replicated,
            ..options
        };
        connect(&url, options).await
    }

    async fn advance(&self, span: Duration) {
        tokio::time::sleep(span).await;
    }
}
