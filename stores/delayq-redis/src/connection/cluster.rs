//! Cluster: its masters, and their slots at present.
//!
//! The cluster client of the crate `redis` was tried and found insufficient: see ARCHITECTURE.md,
//! "The cluster client".

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use redis::{Pipeline, RedisResult, Value};
use tokio::sync::{Notify, watch};
use tokio::time::{sleep, timeout};

use delayq_core::{Error, Result};

use super::fault;
use super::panel::{Answers, Panel};
use super::server::Server;
use super::settings::{Kind, Settings};
use super::slots::SlotMap;
use super::target::Target;
use crate::config::Address;
use crate::lock::lock;

/// How often nodes are asked for the map. A fail-over is noticed within this time, also by
/// connections on which the old master is silent. If there is reason to doubt the map, they are
/// asked at once, but not more often than the second value.
const ASK: (Duration, Duration) = (Duration::from_secs(1), Duration::from_millis(50));
/// The time limit for one node's answer; the others are asked at the same time.
const PATIENCE: Duration = Duration::from_millis(500);
/// Number of nodes asked each time, at random. The node that knows of the latest election is right,
/// and most nodes learn of an election soon.
const ASKED: usize = 3;
/// How long to keep a node that another one has named but that is not known to all as a master yet.
const GUEST: Duration = Duration::from_secs(10);

/// A cluster.
pub(crate) struct Cluster {
    settings: Arc<Settings>,
    seeds: Vec<Address>,
    map: watch::Sender<Arc<SlotMap>>,
    /// The reason why there is no map.
    failure: Mutex<Option<Error>>,
    nodes: Mutex<HashMap<Address, KnownNode>>,
    again: Notify,
}

/// A node that has been used.
struct KnownNode {
    server: Arc<Server>,
    /// The time when another node last named it as the owner of a slot.
    guest: Option<Instant>,
}

impl Cluster {
    pub(super) fn start(settings: &Arc<Settings>, seeds: &[Address]) -> Arc<Self> {
        let cluster = Arc::new(Self {
            settings: Arc::clone(settings),
            seeds: seeds.to_vec(),
            map: watch::Sender::new(Arc::default()),
            failure: Mutex::default(),
            nodes: Mutex::default(),
            again: Notify::new(),
        });
        settings.runtime.spawn(Arc::clone(&cluster).watch());
        cluster
    }

    pub(super) fn map(&self) -> Arc<SlotMap> {
        Arc::clone(&self.map.borrow())
    }

    /// Receives each new map.
    pub(super) fn maps(&self) -> watch::Receiver<Arc<SlotMap>> {
        self.map.subscribe()
    }

    /// Waits for the first map.
    ///
    /// # Errors
    /// The reason why no node has a map, once all have been asked.
    pub(super) async fn wait_for_first(&self, deadline: Instant) -> Result<()> {
        let mut maps = self.maps();
        loop {
            if !maps.borrow_and_update().masters().is_empty() {
                return Ok(());
            }
            let failure = lock(&self.failure).clone();
            match failure {
                Some(error) if !error.is_transient() || Instant::now() >= deadline => {
                    return Err(error);
                }
                None if Instant::now() >= deadline => return Err(self.silent()),
                _ => {}
            }
            // Wakes for a map or a failure, and after a while in any case.
            let _ = timeout(ASK.1, maps.changed()).await;
        }
    }

    /// Waits until every master is reached. A master that is not reached in time is left for later:
    /// a replica may soon replace it, and callers that use none of its slots need not wait. At
    /// least one has to be reached.
    ///
    /// # Errors
    /// The reason why no master is reached. Fails at once if one refuses for a lasting reason.
    pub(super) async fn reach_masters(&self, deadline: Instant) -> Result<()> {
        loop {
            let (mut is_any_reached, mut missing) = (false, None);
            for node in self.masters() {
                match node
                    .wait_for_first(deadline.min(Instant::now() + PATIENCE))
                    .await
                {
                    Ok(()) => is_any_reached = true,
                    Err(error) if error.is_transient() => missing = Some(error),
                    Err(error) => return Err(error),
                }
            }
            let Some(error) = missing else { return Ok(()) };
            if Instant::now() >= deadline {
                // The start-up check reports the missing servers.
                return if is_any_reached { Ok(()) } else { Err(error) };
            }
            self.ask_again();
            sleep(ASK.1).await;
        }
    }

    /// The master that has `slot`.
    pub(super) fn owner(&self, slot: u16) -> Option<Arc<Server>> {
        let map = self.map();
        map.owner(slot).map(|address| self.node(address))
    }

    /// The masters.
    pub(super) fn masters(&self) -> Vec<Arc<Server>> {
        let masters = self.map().masters();
        masters.iter().map(|address| self.node(address)).collect()
    }

    /// The connections to a node, opened when first needed.
    fn node(&self, address: &Address) -> Arc<Server> {
        self.known(address, None)
    }

    /// The connections to a node that is taking over a slot, possibly its first.
    pub(super) fn guest(&self, address: &Address) -> Arc<Server> {
        self.known(address, Some(Instant::now()))
    }

    fn known(&self, address: &Address, guest: Option<Instant>) -> Arc<Server> {
        let mut nodes = lock(&self.nodes);
        let known = nodes.entry(address.clone()).or_insert_with(|| {
            let target = Target::Fixed(address.clone());
            KnownNode {
                server: Server::start(&self.settings.of_node(), &target),
                guest: None,
            }
        });
        known.guest = guest.or(known.guest);
        Arc::clone(&known.server)
    }

    /// Called when a node has told that another one owns a slot. Answers of nodes that do not know
    /// this yet do not close the new owner's connections.
    pub(super) fn learn(&self, slot: u16, owner: &Address) {
        self.guest(owner);
        self.map.send_if_modified(|map| {
            let is_news = map.owner(slot) != Some(owner);
            if is_news {
                *map = Arc::new(map.moved(slot, owner.clone()));
            }
            is_news
        });
        self.ask_again();
    }

    /// Asks for a map at once.
    pub(super) fn ask_again(&self) {
        self.again.notify_one();
    }

    /// Asks for a map and completes when a new one arrives.
    pub(super) async fn changed(&self) {
        self.ask_again();
        // The sender is in `self`, so this cannot fail.
        let _ = self.maps().changed().await;
    }

    /// The reason why a command of this slot was not sent.
    pub(super) fn why_not_sent(&self, slot: u16) -> Error {
        if self.map().masters().is_empty() {
            return lock(&self.failure).clone().unwrap_or_else(|| self.silent());
        }
        Error::unavailable(
            self.settings.place().to_string(),
            format!("no node has slot {slot}"),
        )
    }

    fn silent(&self) -> Error {
        Error::unavailable(
            self.settings.place().to_string(),
            "none of its nodes has answered yet",
        )
    }

    async fn watch(self: Arc<Self>) {
        let mut panel = self.panel();
        loop {
            self.ask_some(&mut panel).await;
            sleep(ASK.1).await;
            tokio::select! {
                () = sleep(ASK.0) => {}
                () = self.again.notified() => {}
            }
        }
    }

    fn panel(&self) -> Panel {
        Panel::new(&self.settings, Kind::Data, PATIENCE)
    }

    async fn ask_some(&self, panel: &mut Panel) {
        let mut masters = self.map().masters();
        fastrand::shuffle(&mut masters);
        masters.truncate(ASKED);
        let mut found = self.ask_all(&masters, panel).await;
        if found.is_err() {
            found = self.ask_all(&self.seeds, panel).await;
        }
        let map = match found {
            Ok(map) => map,
            Err(error) => {
                *lock(&self.failure) = Some(error);
                return;
            }
        };
        if !panel.believes(map.epoch < self.map().epoch, true) {
            return;
        }
        if map.missing() > 0 {
            let store = self.settings.place();
            tracing::warn!(%store, slots = map.missing(), "slots of the cluster have no master");
        }
        self.adopt(map);
    }

    /// Asks these nodes and returns the newest map.
    async fn ask_all(&self, addresses: &[Address], panel: &mut Panel) -> Result<SlotMap> {
        let mut question = Pipeline::with_capacity(2);
        question.cmd("CLUSTER").arg("INFO");
        question.cmd("CLUSTER").arg("SLOTS");
        let answers = panel.ask(addresses, &question).await;
        let mut best: Result<SlotMap> = Err(self.silent());
        for (address, answers) in addresses.iter().zip(answers) {
            let found = match answers {
                Ok(answers) => read(answers, address, &panel.place_of(address)),
                Err(refusal) => Err(refusal.error),
            };
            best = match (best, found) {
                (Ok(best), Ok(found)) if found.epoch > best.epoch => Ok(found),
                (Ok(best), _) => Ok(best),
                (Err(_), found) => found,
            };
        }
        best
    }

    /// Takes over a map. Closes the connections to nodes that are no longer masters, with
    /// everything that waits for them.
    fn adopt(&self, map: SlotMap) {
        let masters = map.masters();
        let gone: Vec<Arc<Server>> = {
            let mut nodes = lock(&self.nodes);
            let is_guest = |known: &KnownNode| known.guest.is_some_and(|at| at.elapsed() < GUEST);
            let gone =
                nodes.extract_if(|address, known| !masters.contains(address) && !is_guest(known));
            gone.map(|(_, known)| known.server).collect()
        };
        self.map.send_if_modified(|known| {
            let is_news = **known != map;
            if is_news {
                *known = Arc::new(map);
            }
            is_news
        });
        for node in gone {
            node.close();
        }
    }
}

/// Reads the answers of the node at `address`.
fn read(answers: Answers, address: &Address, place: &str) -> Result<SlotMap> {
    let values: RedisResult<Vec<Value>> = answers.into_iter().collect();
    let values = values.map_err(|error| cluster_off(place, &error))?;
    let map = match values.as_slice() {
        [info, slots] => SlotMap::read(info, slots, address),
        _ => None,
    };
    let unknown = "its answer to CLUSTER SLOTS is of an unknown form: is it a Redis?";
    map.ok_or_else(|| Error::corrupt(place, unknown))
}

fn cluster_off(place: &str, error: &redis::RedisError) -> Error {
    if error.to_string().contains("cluster support disabled") {
        return Error::misconfigured(
            place,
            "it is a server of its own, not a node of a cluster",
            "write redis://HOST:PORT for it, or set `cluster-enabled yes`",
        );
    }
    fault::refused(place, error)
}

#[cfg(test)]
mod tests;
