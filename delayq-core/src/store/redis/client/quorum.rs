//! How many replicas have to confirm what is written.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::super::config::{Address, RedisConfig, RedisServers, ReplicaConfirm};
use super::batch::{AskFollowers, Confirm, Confirmed, NodeName};

/// The share of the timeout, as a divisor, that replicas may take to confirm: what waits behind it on the same
/// connection has to be answered, too.
const CONFIRM_SHARE: u32 = 4;

/// How many replicas have to confirm a write.
///
/// A number that is given is that number. Otherwise it is one, and where masters are replaced so many that all
/// replicas are among them which may become the master. A confirmation does not say whose it is, so nobody else may
/// give one: the master is asked for its replicas in the same go, as they may have changed since the number was told.
///
/// Behind sentinels they are those that the sentinels may choose, see [`Replicas`](super::replicas::Replicas), and
/// those that follow the master. Then it does no harm that the sentinels were asked a moment ago: one that has left
/// the master is counted by their word, one that has joined by the master's.
///
/// In a cluster each node has a quorum of its own: the replicas that the node itself knows, but for those that most
/// masters take for dead, and those that follow it. A node that is cut off hears nothing of who is dead, so it counts
/// those on the other side until it serves nobody any more. Where cluster and replication go by other addresses, so
/// that never a replica was the same in both, the larger number counts.
#[derive(Debug)]
pub(super) struct Quorum {
    within: Duration,
    synced: bool,
    follows: bool,
    in_cluster: bool,
    /// Whether those who list replicas and those who are followed mean the same by an address. Of the whole cluster.
    names_agree: Arc<AtomicBool>,
    /// Whether the server may not be asked for `INFO`.
    is_hidden: AtomicBool,
    known: Mutex<Known>,
}

/// What is known of it.
#[derive(Debug)]
struct Known {
    least: u32,
    /// The name of the node, in a cluster.
    name: Option<NodeName>,
    /// Whom the sentinels name, or the node, and who may be chosen in its place.
    master: Option<Address>,
    eligible: HashSet<Address>,
    /// A server, and who follows it.
    server: Option<Address>,
    followers: HashSet<Address>,
}

impl Known {
    fn new(least: u32) -> Self {
        Self {
            least,
            name: None,
            master: None,
            eligible: HashSet::new(),
            server: None,
            followers: HashSet::new(),
        }
    }

    fn replicas(&self, names_agree: bool) -> u32 {
        let (eligible, followers) = (&self.eligible, &self.followers);
        let all = if self.server != self.master {
            eligible.len()
        } else if names_agree {
            eligible.union(followers).count()
        } else {
            eligible.len().max(followers.len())
        };
        u32::try_from(all).unwrap_or(u32::MAX).max(self.least)
    }
}

impl Quorum {
    pub(super) fn new(config: &RedisConfig, timeout: Duration) -> Self {
        let in_cluster = matches!(config.servers, RedisServers::Cluster { .. });
        let is_replaced = !matches!(config.servers, RedisServers::One(_));
        Self {
            within: timeout / CONFIRM_SHARE,
            synced: config.confirm == ReplicaConfirm::Synced,
            follows: config.replicas.is_none() && is_replaced,
            in_cluster,
            names_agree: Arc::new(AtomicBool::new(!in_cluster)),
            is_hidden: AtomicBool::new(false),
            known: Mutex::new(Known::new(config.least_replicas())),
        }
    }

    /// The same for another node of the cluster, of which nothing is known yet.
    pub(super) fn of_another(&self) -> Self {
        let least = self.known().least;
        Self {
            within: self.within,
            synced: self.synced,
            follows: self.follows,
            in_cluster: self.in_cluster,
            names_agree: Arc::clone(&self.names_agree),
            is_hidden: AtomicBool::new(false),
            known: Mutex::new(Known::new(least)),
        }
    }

    /// As many as have to confirm what is sent now.
    pub(super) fn confirm(&self) -> Confirm {
        let (replicas, name) = {
            let known = self.known();
            (self.replicas(&known), known.name)
        };
        Confirm {
            replicas,
            within: self.within,
            synced: self.synced,
            followers: self.asks(),
            node: name,
        }
    }

    /// How the master is asked who follows it, if it is.
    pub(super) fn asks(&self) -> Option<AskFollowers> {
        let ask = if self.is_hidden.load(Ordering::Relaxed) {
            AskFollowers::Role
        } else {
            AskFollowers::Info
        };
        self.follows.then_some(ask)
    }

    /// Whether a node has to be asked for its name, before it can be asked for its replicas.
    pub(super) fn wants_name(&self) -> bool {
        self.follows && self.in_cluster
    }

    /// The node has this name.
    pub(super) fn is_named(&self, name: NodeName) {
        self.known().name = Some(name);
    }

    /// The server may not be asked for `INFO`.
    pub(super) fn hide(&self) {
        self.is_hidden.store(true, Ordering::Relaxed);
    }

    /// Whether those who replace the master, and the master itself, have to be asked for the replicas.
    pub(super) fn follows(&self) -> bool {
        self.follows
    }

    /// The sentinels, or the cluster, may choose these in place of `master`.
    pub(super) fn may_choose(&self, master: &Address, eligible: HashSet<Address>, store: &str) {
        self.change(store, |known| {
            known.master = Some(master.clone());
            known.eligible = eligible;
        });
    }

    /// These follow a server that holds data.
    pub(super) fn is_followed(&self, server: &Address, followers: HashSet<Address>, store: &str) {
        self.change(store, |known| {
            // One that was the master before may answer late.
            if known.master.is_none() || known.master.as_ref() == Some(server) {
                known.server = Some(server.clone());
                known.followers = followers;
            }
        });
    }

    fn change(&self, store: &str, change: impl FnOnce(&mut Known)) {
        let mut known = self.known();
        let before = self.replicas(&known);
        change(&mut known);
        if !known.eligible.is_disjoint(&known.followers) {
            self.names_agree.store(true, Ordering::Relaxed);
        }
        let replicas = self.replicas(&known);
        if replicas != before {
            tracing::info!(
                store,
                replicas,
                before,
                "the number of replicas that have to confirm each write has changed"
            );
        }
    }

    /// What is missing to a write to `server`, now that it has been answered. A replica may have gone, or come, while
    /// it was waited for; and if another server is the master by now, as many as that one needs say nothing of this one.
    pub(super) fn missing(
        &self,
        confirmed: Confirmed,
        (server, store): (&Address, &str),
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
        let known = self.known();
        if known.master.as_ref() != Some(server) {
            return Some("another server is the master by now".to_owned());
        }
        let wanted = self.replicas(&known);
        let too_few = || format!("{replicas} of {wanted} replicas confirmed it");
        (replicas < wanted).then(|| shortage.unwrap_or_else(too_few))
    }

    fn replicas(&self, known: &Known) -> u32 {
        known.replicas(self.names_agree.load(Ordering::Relaxed))
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests;
