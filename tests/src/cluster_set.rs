//! A Redis Cluster of real processes on one machine, made and changed with plain `CLUSTER`
//! commands.

#![allow(
    clippy::indexing_slicing,
    reason = "a test that means a server which is not there fails, and says where"
)]

use std::collections::{BTreeMap, HashSet};
use std::ops::RangeInclusive;

use redis::{FromRedisValue, RedisResult};

use crate::liveness::{ask, command, connect_patiently, info, replicas_that_hear, until_ok};
use crate::redis_server::{Environment, Persistence, RedisServer, Role};

/// How many slots a cluster has; the specification of Redis Cluster says so.
pub const SLOTS: u16 = 16_384;

/// How long a `MIGRATE` may wait for the other node.
const MIGRATE_MS: &str = "10000";

/// What a cluster is made of.
#[derive(Clone, Debug)]
pub struct ClusterOptions {
    /// How many masters there are; each begins with an equal share of the slots.
    pub masters: usize,
    /// How many replicas each master has.
    pub replicas: usize,
    /// How long a node must be silent until others take it for dead.
    pub node_timeout_ms: u64,
    /// What the nodes write to disk. Without any, a master that comes back before it was replaced
    /// is empty.
    pub persistence: Persistence,
    /// What clients and replicas must know to talk to a node.
    pub password: Option<String>,
    /// More arguments for the nodes.
    pub extra: Vec<String>,
    /// What the nodes find in their environment, one after the other; those beyond find nothing
    /// more.
    pub environments: Vec<Environment>,
}

impl Default for ClusterOptions {
    /// Three masters with a replica each, silent for a second, synced every second, without a
    /// password.
    fn default() -> Self {
        Self {
            masters: 3,
            replicas: 1,
            node_timeout_ms: 1_000,
            persistence: Persistence::EverySecond,
            password: None,
            extra: Vec::new(),
            environments: Vec::new(),
        }
    }
}

/// The running cluster. Everything ends with it, or with the test process.
#[derive(Debug)]
pub struct ClusterSet {
    /// The nodes, first those that began as masters, then replicas: kill, stop, resume, restart
    /// them at will. One that comes back follows whoever replaced it.
    pub nodes: Vec<RedisServer>,
    /// The names by which the nodes know each other.
    ids: Vec<String>,
    options: ClusterOptions,
}

/// A node, as another one sees it: a line of `CLUSTER NODES`.
#[derive(Debug)]
struct Seen {
    node: usize,
    flags: HashSet<String>,
    /// Whom it follows.
    master: Option<usize>,
    slots: Vec<RangeInclusive<u16>>,
}

impl Seen {
    fn is_fine(&self) -> bool {
        let bad = ["fail", "fail?", "handshake", "noaddr"];
        !bad.iter().any(|flag| self.flags.contains(*flag))
    }

    fn is_master(&self) -> bool {
        self.flags.contains("master")
    }

    fn has(&self, slot: u16) -> bool {
        self.slots.iter().any(|range| range.contains(&slot))
    }
}

impl ClusterSet {
    /// Starts the cluster, and awaits that every node sees it whole and all replicas are in sync.
    ///
    /// # Panics
    /// When it does not start.
    pub async fn start(options: ClusterOptions) -> Self {
        let (masters, all) = (options.masters, options.masters * (1 + options.replicas));
        let mut set = Self {
            nodes: Vec::new(),
            ids: Vec::new(),
            options,
        };
        for node in 0..all {
            set.new_node().await;
            // Without epochs of their own, two masters would have to settle first whose is larger.
            let epoch = (node + 1).to_string();
            set.tell(node, &["CLUSTER", "SET-CONFIG-EPOCH", &epoch])
                .await;
        }
        for node in 0..masters {
            let share = |n: usize| n * usize::from(SLOTS) / masters;
            let (from, to) = (share(node), share(node + 1) - 1);
            let (from, to) = (from.to_string(), to.to_string());
            set.tell(node, &["CLUSTER", "ADDSLOTSRANGE", &from, &to])
                .await;
        }
        for node in 1..all {
            set.meet(node).await;
        }
        until_ok("acquaintance of all nodes", || set.know_all()).await;
        for node in masters..all {
            set.follow(node, node % masters).await;
        }
        set.whole().await;
        set
    }

    /// Where the nodes are, as an application is told: `redis-cluster://...`.
    #[must_use]
    pub fn url(&self) -> String {
        let addresses = self.nodes.iter();
        let addresses = addresses.map(|node| format!("127.0.0.1:{}", node.port()));
        let addresses: Vec<_> = addresses.collect();
        format!("redis-cluster://{}{}", self.login(), addresses.join(","))
    }

    /// The URL of one node.
    #[must_use]
    pub fn node_url(&self, node: usize) -> String {
        let port = self.nodes[node].port();
        format!("redis://{}127.0.0.1:{port}", self.login())
    }

    /// Sends one command to a node; it is not redirected.
    ///
    /// # Errors
    /// It is not reached, does not answer within a second, or answers with an error.
    pub async fn ask<T: FromRedisValue>(&self, node: usize, words: &[&str]) -> RedisResult<T> {
        ask(&self.node_url(node), words).await
    }

    /// The slot of a key.
    ///
    /// # Panics
    /// When no node runs.
    pub async fn slot_of(&self, key: &str) -> u16 {
        let node = self.running().next().expect("a node runs");
        let slot = self.ask(node, &["CLUSTER", "KEYSLOT", key]).await;
        slot.expect("every node knows")
    }

    /// The master that all running nodes take for the one that serves `slot`.
    ///
    /// # Panics
    /// When they do not agree in time.
    pub async fn node_of(&self, slot: u16) -> usize {
        until_ok("an owner that nodes agree on", || self.owner(slot)).await
    }

    /// The running masters, those without slots too.
    ///
    /// # Panics
    /// When no node answers.
    pub async fn masters(&self) -> Vec<usize> {
        let node = self.running().next().expect("a node runs");
        let seen = self.seen_by(node).await.expect("it answers");
        let masters = seen.iter().filter(|seen| seen.is_master());
        let masters = masters.map(|seen| seen.node);
        masters
            .filter(|node| self.nodes[*node].is_running())
            .collect()
    }

    /// The running nodes that follow `master`, by its own view.
    ///
    /// # Panics
    /// When it does not answer.
    pub async fn replicas_of(&self, master: usize) -> Vec<usize> {
        let seen = self.seen_by(master).await.expect("it answers");
        let follows = |seen: &&Seen| seen.master == Some(master);
        let replicas = seen.iter().filter(follows).map(|seen| seen.node);
        let is_running = |node: &usize| self.nodes[*node].is_running();
        replicas.filter(is_running).collect()
    }

    /// Awaits that all running nodes see the slots of `old` served by another node and the cluster
    /// as working; returns that node. `slot` is one that `old` had.
    ///
    /// # Panics
    /// When that does not come.
    pub async fn failed_over(&self, old: usize, slot: u16) -> usize {
        let replaced = || async {
            let new = self.owner(slot).await?;
            if new == old {
                return Err(format!("slot {slot} is still served by node {old}"));
            }
            self.works().await.map(|()| new)
        };
        until_ok("the fail-over of a node", replaced).await
    }

    /// Awaits that all running nodes see each other as sound and the cluster as working, that they
    /// agree on who serves which slots and who follows whom, and that all replicas have all their
    /// masters have: ready for the next fault.
    ///
    /// # Panics
    /// When that does not come.
    pub async fn whole(&self) {
        let settled = || async {
            self.works().await?;
            self.know_all().await?;
            self.agree().await?;
            self.in_sync().await
        };
        until_ok("a whole cluster", settled).await;
    }

    /// Adds a node without slots or master, and awaits that the cluster is whole with it. Returns
    /// it.
    ///
    /// # Panics
    /// When it does not start.
    pub async fn add_node(&mut self) -> usize {
        let node = self.new_node().await;
        self.meet(node).await;
        self.whole().await;
        node
    }

    /// Makes an empty node a replica of `master`.
    ///
    /// # Panics
    /// When it is not empty, or does not know `master`.
    pub async fn follow(&self, node: usize, master: usize) {
        let id = &self.ids[master];
        self.tell(node, &["CLUSTER", "REPLICATE", id]).await;
    }

    /// Ends the connections of all replicas of `master`, and awaits that so many are back: those
    /// that hang are not.
    ///
    /// # Panics
    /// When they do not come.
    pub async fn part_with_replicas(&self, master: usize, until_back: usize) {
        self.tell(master, &["CLIENT", "KILL", "TYPE", "REPLICA"])
            .await;
        let url = self.node_url(master);
        until_ok("replicas that are back", || async {
            match replicas_that_hear(&url, until_back).await {
                Ok(count) if count >= until_back => Ok(()),
                other => Err(format!("{other:?}")),
            }
        })
        .await;
    }

    /// Moves slots, one after the other, each from its present owner to the master `to`.
    ///
    /// # Panics
    /// When a node does not do its part.
    pub async fn move_slots(&self, slots: RangeInclusive<u16>, to: usize) {
        for slot in slots {
            let from = self.node_of(slot).await;
            if from == to {
                continue;
            }
            self.begin_move(slot, from, to).await;
            while self.move_keys(slot, 100, from, to).await > 0 {}
            self.end_move(slot, from, to).await;
        }
    }

    /// Opens a slot for its move. From now on, `from` sends those on that ask for keys it does not
    /// have.
    ///
    /// # Panics
    /// When a node does not do its part.
    pub async fn begin_move(&self, slot: u16, from: usize, to: usize) {
        let slot = slot.to_string();
        let set = ["CLUSTER", "SETSLOT", &slot];
        let importing = [&set[..], &["IMPORTING", &self.ids[from]]].concat();
        self.tell(to, &importing).await;
        let migrating = [&set[..], &["MIGRATING", &self.ids[to]]].concat();
        self.tell(from, &migrating).await;
    }

    /// Moves up to `limit` keys of a slot that is open; returns how many.
    ///
    /// # Panics
    /// When a node does not do its part.
    pub async fn move_keys(&self, slot: u16, limit: usize, from: usize, to: usize) -> usize {
        let connection = connect_patiently(&self.node_url(from)).await;
        let mut connection = connection.expect("it is reached");
        let (slot, limit) = (slot.to_string(), limit.to_string());
        let list = command(&["CLUSTER", "GETKEYSINSLOT", &slot, &limit]);
        let keys: RedisResult<Vec<Vec<u8>>> = list.query_async(&mut connection).await;
        let keys = keys.expect("it lists its keys");
        if keys.is_empty() {
            return 0;
        }
        let port = self.nodes[to].port().to_string();
        let mut migrate = command(&["MIGRATE", "127.0.0.1", &port, "", "0", MIGRATE_MS]);
        if let Some(password) = &self.options.password {
            migrate.arg(&["AUTH", password]);
        }
        migrate.arg("KEYS").arg(&keys);
        let moved = migrate.exec_async(&mut connection).await;
        moved.expect("it hands its keys over");
        keys.len()
    }

    /// Gives an open slot, all of whose keys have moved, to `to`, and tells all masters that run.
    ///
    /// # Panics
    /// When keys are left.
    pub async fn end_move(&self, slot: u16, from: usize, to: usize) {
        let slot = slot.to_string();
        let given = ["CLUSTER", "SETSLOT", &slot, "NODE", &self.ids[to]];
        // First the new owner, so that the slot has one at every moment.
        self.tell(to, &given).await;
        self.tell(from, &given).await;
        let seen = self.seen_by(to).await.expect("it answers");
        for master in seen.iter().filter(|seen| seen.is_master()) {
            if ![from, to].contains(&master.node) && self.nodes[master.node].is_running() {
                self.tell(master.node, &given).await;
            }
        }
    }

    fn login(&self) -> String {
        let password = self.options.password.as_ref();
        password.map_or_else(String::new, |password| format!(":{password}@"))
    }

    fn running(&self) -> impl Iterator<Item = usize> {
        (0..self.nodes.len()).filter(|node| self.nodes[*node].is_running())
    }

    async fn new_node(&mut self) -> usize {
        let timeout = self.options.node_timeout_ms.to_string();
        let mut words = vec!["--cluster-node-timeout", &timeout];
        words.extend(["--repl-diskless-sync-delay", "0"]);
        words.extend(["--enable-debug-command", "local"]);
        if let Some(password) = &self.options.password {
            words.extend(["--requirepass", password, "--masterauth", password]);
        }
        words.extend(self.options.extra.iter().map(String::as_str));
        let environment = self.options.environments.get(self.nodes.len());
        let environment = environment.cloned().unwrap_or_default();
        let persistence = self.options.persistence;
        let node = RedisServer::start_in(environment, Role::Node, persistence, &words);
        self.nodes.push(node);
        let node = self.nodes.len() - 1;
        let id = self.ask(node, &["CLUSTER", "MYID"]).await;
        self.ids.push(id.expect("a node has a name"));
        node
    }

    /// Sends a command that must succeed.
    async fn tell(&self, node: usize, words: &[&str]) {
        let done = async {
            let mut connection = connect_patiently(&self.node_url(node)).await?;
            command(words).exec_async(&mut connection).await
        };
        done.await
            .unwrap_or_else(|error| panic!("node {node}, {words:?}: {error}"));
    }

    /// Introduces `node` to all before it, so that none has to wait for gossip.
    async fn meet(&self, node: usize) {
        let (port, bus) = (self.nodes[node].port(), self.nodes[node].bus_port());
        let (port, bus) = (port.to_string(), bus.to_string());
        for other in self.running().filter(|other| *other != node) {
            self.tell(other, &["CLUSTER", "MEET", "127.0.0.1", &port, &bus])
                .await;
        }
    }

    /// The cluster as `node` sees it.
    async fn seen_by(&self, node: usize) -> Result<Vec<Seen>, String> {
        let text: RedisResult<String> = self.ask(node, &["CLUSTER", "NODES"]).await;
        let text = text.map_err(|error| format!("node {node}: {error}"))?;
        // Those in a handshake have no lasting name yet.
        Ok(text.lines().filter_map(|line| self.read(line)).collect())
    }

    fn read(&self, line: &str) -> Option<Seen> {
        let words: Vec<_> = line.split_whitespace().collect();
        let by_id = |id: &str| self.ids.iter().position(|known| known == id);
        let slots = words.iter().skip(8).filter_map(|range| {
            let (from, to) = range.split_once('-').unwrap_or((range, range));
            // A slot on the move stands in brackets, beside the range that has it.
            Some(from.parse().ok()?..=to.parse().ok()?)
        });
        Some(Seen {
            node: by_id(words[0])?,
            flags: words[2].split(',').map(str::to_owned).collect(),
            master: by_id(words[3]),
            slots: slots.collect(),
        })
    }

    /// The owner of `slot` by all running nodes.
    async fn owner(&self, slot: u16) -> Result<usize, String> {
        let mut found = None;
        for node in self.running() {
            let seen = self.seen_by(node).await?;
            let owner = seen.iter().find(|seen| seen.has(slot));
            let owner = owner.ok_or(format!("node {node} sees no owner of {slot}"))?;
            if *found.get_or_insert(owner.node) != owner.node {
                return Err(format!("nodes differ about slot {slot}"));
            }
        }
        found.ok_or("no node runs".into())
    }

    async fn works(&self) -> Result<(), String> {
        for node in self.running() {
            let text: RedisResult<String> = self.ask(node, &["CLUSTER", "INFO"]).await;
            let text = text.map_err(|error| format!("node {node}: {error}"))?;
            if !text.contains("cluster_state:ok") {
                return Err(format!("node {node}: {text}"));
            }
        }
        Ok(())
    }

    /// Whether every running node sees all running nodes, and them as sound.
    async fn know_all(&self) -> Result<(), String> {
        for node in self.running() {
            let seen = self.seen_by(node).await?;
            for other in self.running() {
                let is_known = seen.iter().any(|seen| seen.node == other && seen.is_fine());
                if !is_known {
                    return Err(format!("node {node} sees not yet {other}: {seen:?}"));
                }
            }
        }
        Ok(())
    }

    /// Whether all running nodes see the same slots and masters of them all.
    async fn agree(&self) -> Result<(), String> {
        let mut first = None;
        for node in self.running() {
            let seen = self.seen_by(node).await?.into_iter();
            let seen = seen.filter(|seen| self.nodes[seen.node].is_running());
            let view: BTreeMap<_, _> = seen.map(|s| (s.node, (s.master, s.slots))).collect();
            let first = first.get_or_insert_with(|| view.clone());
            if *first != view {
                return Err(format!("{first:?} and, seen by node {node}, {view:?}"));
            }
        }
        Ok(())
    }

    /// Whether all running replicas, as they see themselves, have all that their masters have now.
    async fn in_sync(&self) -> Result<(), String> {
        for node in self.running() {
            let seen = self.seen_by(node).await?;
            let own = seen.iter().find(|seen| seen.node == node);
            let Some(master) = own.and_then(|own| own.master) else {
                continue;
            };
            let of = |node: usize| async move {
                let fields = info(&self.node_url(node), "replication").await;
                fields.map_err(|error| format!("node {node}: {error}"))
            };
            let (leader, replica) = (of(master).await?, of(node).await?);
            let offset = |text: Option<&String>| text.and_then(|text| text.parse::<u64>().ok());
            let written = offset(leader.get("master_repl_offset"));
            let is_up = replica.get("master_link_status").is_some_and(|s| s == "up");
            if !is_up || offset(replica.get("slave_repl_offset")) < written {
                return Err(format!("{node}: {replica:?}, {master}: {leader:?}"));
            }
            let hearing = replicas_that_hear(&self.node_url(master), 1).await;
            if hearing.map_err(|error| format!("node {master}: {error}"))? == 0 {
                return Err(format!("no replica hears node {master}"));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    #[tokio::test]
    async fn a_killed_node_is_replaced_and_comes_back_as_a_replica() {
        let began = Instant::now();
        let mut set = ClusterSet::start(ClusterOptions {
            password: Some("secret".into()),
            ..ClusterOptions::default()
        })
        .await;
        println!("started after {:?}", began.elapsed());
        let slot = set.slot_of("{a}b").await;
        let old = set.node_of(slot).await;
        assert_eq!(set.replicas_of(old).await, [old + 3]);
        set.ask::<()>(old, &["SET", "{a}b", "1"]).await.unwrap();
        set.whole().await;
        let began = Instant::now();
        set.nodes[old].kill();
        let new = set.failed_over(old, slot).await;
        println!("failed over after {:?}", began.elapsed());
        assert_eq!(new, old + 3);
        let value: String = set.ask(new, &["GET", "{a}b"]).await.unwrap();
        assert_eq!(value, "1");
        let began = Instant::now();
        set.nodes[old].restart();
        set.whole().await;
        println!("whole again after {:?}", began.elapsed());
        assert_eq!(set.replicas_of(new).await, [old]);
    }

    #[tokio::test]
    async fn a_stopped_node_is_replaced() {
        let mut set = ClusterSet::start(ClusterOptions::default()).await;
        set.nodes[0].stop();
        let began = Instant::now();
        assert_eq!(set.failed_over(0, 0).await, 3);
        println!("failed over after {:?}", began.elapsed());
        set.nodes[0].resume();
        let began = Instant::now();
        set.whole().await;
        println!("whole again after {:?}", began.elapsed());
        assert_eq!(set.replicas_of(3).await, [0]);
    }

    #[tokio::test]
    async fn slots_move_to_a_new_node_with_their_keys() {
        let mut set = ClusterSet::start(ClusterOptions {
            replicas: 0,
            ..ClusterOptions::default()
        })
        .await;
        let slot = set.slot_of("{a}").await;
        let from = set.node_of(slot).await;
        for n in 0..5 {
            let key = format!("{{a}}{n}");
            set.ask::<()>(from, &["SET", &key, "1"]).await.unwrap();
        }
        let to = set.add_node().await;
        set.begin_move(slot, from, to).await;
        assert_eq!(set.move_keys(slot, 3, from, to).await, 3);
        let both = ["EXISTS", "{a}0", "{a}1", "{a}2", "{a}3", "{a}4"];
        let refused = set.ask::<usize>(from, &both).await.unwrap_err();
        assert_eq!(refused.code(), Some("TRYAGAIN"));
        assert_eq!(set.node_of(slot).await, from);
        set.move_slots(slot - 2..=slot, to).await;
        assert_eq!(set.node_of(slot).await, to);
        assert_eq!(set.node_of(slot - 2).await, to);
        assert_eq!(set.ask::<usize>(to, &both).await.unwrap(), 5);
        let moved = set.ask::<usize>(from, &both).await.unwrap_err();
        assert_eq!(moved.code(), Some("MOVED"));
        set.whole().await;
    }
}
