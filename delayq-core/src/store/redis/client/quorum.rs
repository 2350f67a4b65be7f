//! How many replicas have to confirm what is written.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
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
/// masters take for dead. A node that is cut off hears nothing of that, so it counts those on the other side until it
/// serves nobody any more.
#[derive(Debug)]
pub(super) struct Quorum {
    within: Duration,
    synced: bool,
    follows: bool,
    in_cluster: bool,
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
    /// Whom the sentinels name, and whom they may choose in its place. In a cluster, the node.
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

    fn replicas(&self) -> u32 {
        let all = if self.server == self.master {
            self.eligible.union(&self.followers).count()
        } else {
            self.eligible.len()
        };
        u32::try_from(all).unwrap_or(u32::MAX).max(self.least)
    }
}

impl Quorum {
    pub(super) fn new(config: &RedisConfig, timeout: Duration) -> Self {
        let is_replaced = !matches!(config.servers, RedisServers::One(_));
        Self {
            within: timeout / CONFIRM_SHARE,
            synced: config.confirm == ReplicaConfirm::Synced,
            follows: config.replicas.is_none() && is_replaced,
            in_cluster: matches!(config.servers, RedisServers::Cluster { .. }),
            is_hidden: AtomicBool::new(false),
            known: Mutex::new(Known::new(config.least_replicas())),
        }
    }

    /// The same for another node of the cluster, of which nothing is known yet.
    pub(super) fn of_another(&self) -> Self {
        let least = self.known().least;
        Self {
            is_hidden: AtomicBool::new(false),
            known: Mutex::new(Known::new(least)),
            ..*self
        }
    }

    /// As many as have to confirm what is sent now.
    pub(super) fn confirm(&self) -> Confirm {
        let replicas = self.known().replicas();
        Confirm {
            replicas,
            within: self.within,
            synced: self.synced,
            followers: self.asks(),
        }
    }

    /// How the master is asked who follows it, if it is.
    pub(super) fn asks(&self) -> Option<AskFollowers> {
        if self.in_cluster {
            let name = self.known().name.filter(|_| self.follows);
            return name.map(AskFollowers::Cluster);
        }
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

    /// The node at `address` has this name.
    pub(super) fn is_named(&self, address: &Address, name: NodeName) {
        let mut known = self.known();
        known.name = Some(name);
        known.master = Some(address.clone());
    }

    /// The server may not be asked for `INFO`.
    pub(super) fn hide(&self) {
        self.is_hidden.store(true, Ordering::Relaxed);
    }

    /// Whether those who replace the master, and the master itself, have to be asked for the replicas.
    pub(super) fn follows(&self) -> bool {
        self.follows
    }

    /// The sentinels may choose these in place of `master`.
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
        let before = known.replicas();
        change(&mut known);
        let replicas = known.replicas();
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
        } = confirmed;
        if !self.follows {
            return shortage;
        }
        let Some(followers) = followers else {
            return shortage.or_else(|| Some("the server does not tell who follows it".to_owned()));
        };
        self.is_followed(server, followers, store);
        let known = self.known();
        if known.master.as_ref() != Some(server) {
            return Some("another server is the master by now".to_owned());
        }
        let wanted = known.replicas();
        let too_few = || format!("{replicas} of {wanted} replicas confirmed it");
        (replicas < wanted).then(|| shortage.unwrap_or_else(too_few))
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn servers(ports: &[u16]) -> HashSet<Address> {
        ports.iter().map(|port| server(*port)).collect()
    }

    fn server(port: u16) -> Address {
        Address::new("10.0.0.1", port)
    }

    fn confirmed(replicas: u32, wanted: u32, followers: &[u16]) -> Confirmed {
        Confirmed {
            replicas,
            shortage: (replicas < wanted).then(|| "too few".to_owned()),
            followers: Some(servers(followers)),
        }
    }

    fn quorum(url: &str) -> Quorum {
        let config = RedisConfig::parse(url).unwrap();
        Quorum::new(&config, Duration::from_secs(5))
    }

    #[test]
    fn whoever_may_be_chosen_has_to_confirm_and_nobody_else_may() {
        let quorum = quorum("redis-sentinel://h/orders");
        let needs = || quorum.confirm().replicas;
        assert_eq!(needs(), 1);
        quorum.may_choose(&server(1), servers(&[2, 3]), "");
        quorum.is_followed(&server(1), servers(&[2, 3]), "");
        assert_eq!(needs(), 2);
        quorum.is_followed(&server(1), servers(&[2]), "");
        assert_eq!(needs(), 2, "the other one may be chosen still");
        quorum.may_choose(&server(1), servers(&[3]), "");
        assert_eq!(
            needs(),
            2,
            "the one that follows is not the one that may be chosen"
        );
        quorum.may_choose(&server(1), servers(&[2]), "");
        assert_eq!(needs(), 1);
        quorum.may_choose(&server(1), servers(&[]), "");
        quorum.is_followed(&server(1), servers(&[]), "");
        assert_eq!(needs(), 1);
    }

    #[test]
    fn who_follows_one_master_says_nothing_of_the_next() {
        let quorum = quorum("redis-sentinel://h/orders");
        quorum.may_choose(&server(1), servers(&[2, 3]), "");
        quorum.is_followed(&server(1), servers(&[2, 3]), "");
        quorum.may_choose(&server(2), servers(&[3]), "");
        assert_eq!(quorum.confirm().replicas, 1);
        let missing = |(replicas, wanted), port, followers: &[u16]| {
            let confirmed = confirmed(replicas, wanted, followers);
            quorum.missing(confirmed, (&server(port), "")).is_some()
        };
        assert!(missing((2, 2), 1, &[2, 3]) && missing((1, 2), 1, &[3]));
        assert!(!missing((1, 1), 2, &[3]) && !missing((1, 2), 2, &[3]));
        assert!(missing((0, 1), 2, &[3]));
        quorum.is_followed(&server(1), servers(&[2, 3, 4]), "");
        assert_eq!(quorum.confirm().replicas, 1, "the old master answers late");
    }

    #[test]
    fn one_that_has_joined_does_not_confirm_for_one_that_has_left() {
        let quorum = quorum("redis-sentinel://h/orders");
        quorum.may_choose(&server(1), servers(&[2]), "");
        quorum.is_followed(&server(1), servers(&[2]), "");
        let missing = |confirmed| quorum.missing(confirmed, (&server(1), "")).is_some();
        assert!(!missing(confirmed(1, 1, &[2])));
        assert!(missing(confirmed(1, 1, &[3])));
        assert!(missing(confirmed(1, 1, &[2, 3])), "it may be the other one");
        assert!(!missing(confirmed(2, 1, &[2, 3])));
        let untold = Confirmed {
            followers: None,
            ..confirmed(1, 1, &[])
        };
        assert!(missing(untold));
    }

    #[test]
    fn a_node_of_a_cluster_counts_the_replicas_that_it_knows_and_no_other_nodes() {
        let cluster = quorum("redis-cluster://h");
        assert!(cluster.wants_name());
        assert_eq!(cluster.asks(), None, "it has no name yet");
        cluster.is_named(&server(1), [b'a'; 40]);
        cluster.is_followed(&server(1), servers(&[4, 5]), "");
        let other = cluster.of_another();
        assert_eq!(other.asks(), None);
        other.is_named(&server(2), [b'b'; 40]);
        assert_eq!(other.asks(), Some(AskFollowers::Cluster([b'b'; 40])));
        let needs = || [&cluster, &other].map(|quorum| quorum.confirm().replicas);
        assert_eq!(needs(), [2, 1]);
        let missing = |(replicas, wanted), followers: &[u16]| {
            let confirmed = confirmed(replicas, wanted, followers);
            cluster.missing(confirmed, (&server(1), "")).is_some()
        };
        assert!(missing((1, 2), &[4, 5]));
        assert!(!missing((1, 2), &[4]), "the other one has failed meanwhile");
        assert!(missing((1, 1), &[4, 5]), "and is back");
        assert_eq!(needs(), [2, 1]);
    }

    #[test]
    fn a_master_that_may_not_be_asked_for_its_state_is_asked_for_its_role() {
        let quorum = quorum("redis-sentinel://h/orders");
        assert_eq!(quorum.asks(), Some(AskFollowers::Info));
        quorum.hide();
        assert_eq!(quorum.asks(), Some(AskFollowers::Role));
    }

    #[test]
    fn a_number_that_is_given_and_one_server_need_nobody_else() {
        for (url, replicas) in [
            ("redis-sentinel://h/orders?replicas=1", 1),
            ("redis-sentinel://h/orders?replicas=3", 3),
            ("redis://h", 1),
            ("redis-cluster://h?replicas=1", 1),
            ("redis-cluster://h?replicas=2", 2),
        ] {
            let quorum = quorum(url);
            assert!(!quorum.follows(), "{url}");
            assert_eq!(quorum.confirm().replicas, replicas, "{url}");
            assert!(
                quorum
                    .missing(confirmed(1, 1, &[]), (&server(1), ""))
                    .is_none(),
                "{url}"
            );
            assert!(
                quorum
                    .missing(confirmed(1, 9, &[]), (&server(1), ""))
                    .is_some(),
                "{url}"
            );
        }
    }
}
