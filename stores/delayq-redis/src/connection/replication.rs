//! Replication: the replicas that have to confirm a write of class `replicated`, and their
//! confirmations.
//!
//! The number of confirmations is the configured one, or else one. If masters can be replaced, it
//! is high enough to include every replica that may become the master. A confirmation does not say
//! which replica it comes from, so all replicas count: the master is asked for its replicas in the
//! same pipeline, as they may have changed since the number was set.
//!
//! With sentinels, the replicas are those that the sentinels may choose, and those that follow the
//! master. So it does no harm that the sentinels were asked a moment ago: a replica that has left
//! the master is in the sentinels' list, and one that has joined is in the master's.
//!
//! In a cluster each node has a number of its own: the replicas known to the node itself, except
//! those that most masters consider dead, and those that follow it. A node that is cut off does not
//! learn which ones are dead, so it counts those on the other side until it stops serving. If
//! cluster and replication use different addresses, so that no replica was ever the same in both,
//! the larger number counts.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use redis::{Pipeline, RedisResult, Value};

use super::confirm::{Confirm, Confirmed, NodeName};
use crate::config::{Address, RedisConfig, RedisServers, ReplicaConfirm};
use crate::lock::lock;

/// The divisor of the timeout for the replicas' confirmations: commands queued behind it on the
/// same connection have to be answered, too.
const CONFIRM_SHARE: u32 = 4;

/// The replicas of one server, or of the present master.
#[derive(Debug)]
pub(super) struct Replication {
    within: Duration,
    synced: bool,
    /// True if the number follows the actual replicas.
    pub(super) follows: bool,
    in_cluster: bool,
    /// True if the lists of replicas and the master use the same addresses. Shared by the whole
    /// cluster.
    names_agree: Arc<AtomicBool>,
    /// The minimum number of confirmations.
    least: u32,
    known: Mutex<KnownReplicas>,
}

#[derive(Debug, Default)]
struct KnownReplicas {
    /// The name of the node, in a cluster.
    name: Option<NodeName>,
    /// The master according to the sentinels or the node, and the replicas that may replace it.
    master: Option<Address>,
    eligible: HashSet<Address>,
    /// A server that has answered, and the replicas that follow it.
    server: Option<Address>,
    followers: HashSet<Address>,
}

impl Replication {
    pub(super) fn new(config: &RedisConfig, timeout: Duration) -> Self {
        let in_cluster = matches!(config.servers, RedisServers::Cluster { .. });
        let is_replaced = !matches!(config.servers, RedisServers::One(_));
        Self {
            within: timeout / CONFIRM_SHARE,
            synced: config.confirm == ReplicaConfirm::Synced,
            follows: config.replicas.is_none() && is_replaced,
            in_cluster,
            names_agree: Arc::new(AtomicBool::new(!in_cluster)),
            least: config.least_replicas(),
            known: Mutex::default(),
        }
    }

    /// The same for another node of the cluster, without any knowledge yet.
    pub(super) fn of_another_node(&self) -> Self {
        Self {
            names_agree: Arc::clone(&self.names_agree),
            known: Mutex::default(),
            ..*self
        }
    }

    /// The confirmations required for the next write.
    pub(super) fn confirm(&self) -> Confirm {
        let known = lock(&self.known);
        Confirm {
            replicas: self.wanted(&known),
            within: self.within,
            synced: self.synced,
            asks: self.follows,
            node: known.name,
        }
    }

    /// True if a node has to be asked for its name before it can be asked for its replicas.
    pub(super) fn asks_for_name(&self) -> bool {
        self.follows && self.in_cluster
    }

    pub(super) fn set_name(&self, name: &[u8]) {
        lock(&self.known).name = NodeName::try_from(name).ok();
    }

    /// The questions to a server about its replicas.
    pub(super) fn questions(&self) -> Option<Pipeline> {
        let mut pipeline = Pipeline::new();
        self.confirm().add_questions(&mut pipeline);
        self.follows.then_some(pipeline)
    }

    /// Reads the answers to the questions. Questions without an answer are repeated with each
    /// write.
    pub(super) fn learn(
        &self,
        server: &Address,
        mut answers: Vec<RedisResult<Value>>,
        store: &str,
    ) {
        let confirm = self.confirm();
        let listed = confirm.take_listed(&mut answers);
        let followers = confirm.take_followers(&mut answers);
        if let Some(listed) = listed {
            self.may_choose(server, listed, store);
        }
        if let Some(followers) = followers {
            self.is_followed(server, followers, store);
        }
    }

    /// Notes the replicas that the sentinels, or the cluster, may choose in place of `master`.
    pub(super) fn may_choose(&self, master: &Address, eligible: HashSet<Address>, store: &str) {
        self.change(store, |known| {
            known.master = Some(master.clone());
            known.eligible = eligible;
        });
    }

    /// Notes the replicas that follow a server that holds data.
    fn is_followed(&self, server: &Address, followers: HashSet<Address>, store: &str) {
        self.change(store, |known| {
            // A former master may answer late.
            if known.master.is_none() || known.master.as_ref() == Some(server) {
                known.server = Some(server.clone());
                known.followers = followers;
            }
        });
    }

    fn change(&self, store: &str, change: impl FnOnce(&mut KnownReplicas)) {
        let mut known = lock(&self.known);
        let before = self.wanted(&known);
        change(&mut known);
        if !known.eligible.is_disjoint(&known.followers) {
            self.names_agree.store(true, Ordering::Relaxed);
        }
        let replicas = self.wanted(&known);
        if replicas != before {
            tracing::info!(
                store,
                replicas,
                before,
                "the number of replicas that have to confirm each write has changed"
            );
        }
    }

    /// The confirmations missing for a write to `server`, now that it has been answered. Replicas
    /// may have left or joined during the wait. If another server is the master by now, its number
    /// says nothing about this one.
    pub(super) fn missing(
        &self,
        confirmed: Confirmed,
        server: &Address,
        store: &str,
    ) -> Option<String> {
        let Confirmed {
            replicas,
            shortage,
            followers,
            listed,
        } = confirmed;
        if !self.follows {
            return shortage;
        }
        let Some(followers) = followers else {
            return shortage.or_else(|| Some("the server does not tell who follows it".to_owned()));
        };
        match listed {
            Some(listed) => self.may_choose(server, listed, store),
            None if self.in_cluster => {
                let untold = || "the node does not tell which replicas it has".to_owned();
                return shortage.or_else(|| Some(untold()));
            }
            None => {}
        }
        self.is_followed(server, followers, store);
        let known = lock(&self.known);
        if known.master.as_ref() != Some(server) {
            return Some("another server is the master by now".to_owned());
        }
        let wanted = self.wanted(&known);
        let too_few = || format!("{replicas} of {wanted} replicas confirmed it");
        (replicas < wanted).then(|| shortage.unwrap_or_else(too_few))
    }

    fn wanted(&self, known: &KnownReplicas) -> u32 {
        let (eligible, followers) = (&known.eligible, &known.followers);
        let all = if known.server != known.master {
            eligible.len()
        } else if self.names_agree.load(Ordering::Relaxed) {
            eligible.union(followers).count()
        } else {
            eligible.len().max(followers.len())
        };
        u32::try_from(all).unwrap_or(u32::MAX).max(self.least)
    }
}

#[cfg(test)]
#[cfg(all(feature = "cluster", feature = "sentinel"))]
mod tests;
