//! The nodes of a cluster, as a run uses them.

use delayq_tests::cluster_set::{ClusterOptions, ClusterSet};
use delayq_tests::redis_server::{Environment, Persistence, RedisServer};

use super::failure::{Result, failure};
use crate::event::What;
use crate::record::Recorder;

/// How long a node is silent until others take it for dead; for the same reason as with sentinels.
const NODE_TIMEOUT_MS: u64 = super::watched::DOWN_AFTER_MS;

/// How many shards a type of a cluster may have to begin with.
pub const SHARDS: u32 = 2;

/// How many replicas each master has: once it is lost, its successor has another one, which
/// confirms.
pub(crate) const REPLICAS: usize = 2;

/// The running nodes, of which three are masters.
#[derive(Debug)]
pub(crate) struct Nodes {
    pub(crate) set: ClusterSet,
    recorder: Recorder,
}

impl Nodes {
    /// Starts them. What is acknowledged has to survive without a disk.
    pub(crate) async fn start(recorder: Recorder, environments: Vec<Environment>) -> Self {
        let set = ClusterSet::start(ClusterOptions {
            environments,
            replicas: REPLICAS,
            node_timeout_ms: NODE_TIMEOUT_MS,
            persistence: Persistence::None,
            extra: vec!["--min-replicas-to-write".to_owned(), "1".to_owned()],
            ..ClusterOptions::default()
        });
        let set = set.await;
        Self { set, recorder }
    }

    /// Where a process finds them.
    pub(crate) fn url(&self) -> String {
        format!("{}?durability=replicated", self.set.url())
    }

    /// Awaits that another node than `old` serves `slot`, and records it.
    pub(crate) async fn failed_over(&self, old: usize, slot: u16) -> usize {
        let new = self.set.failed_over(old, slot).await;
        self.recorder.record(What::FailedOver);
        new
    }

    pub(crate) fn node(&mut self, node: usize) -> Result<&mut RedisServer> {
        match self.set.nodes.get_mut(node) {
            Some(node) => Ok(node),
            None => failure(format!("there is no node {node}")),
        }
    }
}
