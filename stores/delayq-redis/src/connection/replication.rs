//! Replication: which replicas have to confirm a write of class `replicated`, and whether they did.
//!
//! A number that is given is that number. Otherwise it is one, and where masters are replaced so
//! many that all replicas are among them which may become the master. A confirmation does not say
//! whose it is, so nobody else may give one: the master is asked for its replicas in the same
//! pipeline, as they may have changed since the number was set.
//!
//! Behind sentinels the replicas are those that the sentinels may choose, and those that follow the
//! master. Then it does no harm that the sentinels were asked a moment ago: a replica that has left
//! the master is counted by their word, one that has joined by the master's.
//!
//! In a cluster each node has a number of its own: the replicas that the node itself knows, but for
//! those that most masters take for dead, and those that follow it. A node that is cut off hears
//! nothing of who is dead, so it counts those on the other side until it serves nobody any more.
//! Where cluster and replication use different addresses, so that never a replica was the same in
//! both, the larger number counts.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use redis::{Pipeline, RedisResult, Value};

use super::confirm::{Confirm, Confirmed, NodeName};
use crate::config::{Address, RedisConfig, RedisServers, ReplicaConfirm};
use crate::lock::lock;

/// The share of the timeout, as a divisor, that replicas may take to confirm: what waits behind it
/// on the same connection has to be answered, too.
const CONFIRM_SHARE: u32 = 4;

/// The replicas of one server, or of whichever is the master.
#[derive(Debug)]
pub(super) struct Replication {
    within: Duration,
    synced: bool,
    /// Whether the number follows the replicas that there are.
    pub(super) follows: bool,
    in_cluster: bool,
    /// Whether those who list replicas and the master mean the same by an address. Of the whole
    /// cluster.
    names_agree: Arc<AtomicBool>,
    /// How many have to confirm in any case.
    least: u32,
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    /// The name of the node, in a cluster.
    name: Option<NodeName>,
    /// The master by the sentinels or the node, and the replicas that may be chosen in its place.
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

    /// The same for another node of the cluster, of which nothing is known yet.
    pub(super) fn of_another_node(&self) -> Self {
        Self {
            names_agree: Arc::clone(&self.names_agree),
            known: Mutex::default(),
            ..*self
        }
    }

    /// The confirmations that what is sent now needs.
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

    /// Whether a node has to be asked for its name, before it can be asked for its replicas.
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

    /// Reads the answers to the questions. What a server does not tell is asked again with each
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

    /// The sentinels, or the cluster, may choose these in place of `master`.
    pub(super) fn may_choose(&self, master: &Address, eligible: HashSet<Address>, store: &str) {
        self.change(store, |known| {
            known.master = Some(master.clone());
            known.eligible = eligible;
        });
    }

    /// These follow a server that holds data.
    fn is_followed(&self, server: &Address, followers: HashSet<Address>, store: &str) {
        self.change(store, |known| {
            // One that was the master before may answer late.
            if known.master.is_none() || known.master.as_ref() == Some(server) {
                known.server = Some(server.clone());
                known.followers = followers;
            }
        });
    }

    fn change(&self, store: &str, change: impl FnOnce(&mut Known)) {
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

    /// What is missing to a write to `server`, now that it has been answered. A replica may have
    /// gone, or come, while it was waited for; and if another server is the master by now, the
    /// number that one needs says nothing of this one.
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

    fn wanted(&self, known: &Known) -> u32 {
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
