//! Cluster: its masters, and which of them has a slot now.
//!
//! The client of the crate `redis` was tried and does not do: see ARCHITECTURE.md, "The cluster
//! client".

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

/// How often nodes are asked for the map: a fail-over is noticed within it, also by connections on
/// which the old master is silent. With reason to doubt they are asked at once, but not more often
/// than the second.
const ASK: (Duration, Duration) = (Duration::from_secs(1), Duration::from_millis(50));
/// How long one of them may take; the others have been asked at the same time.
const PATIENCE: Duration = Duration::from_millis(500);
/// How many are asked each time, at random: the one that knows of the latest election is right, and
/// elections are known to most nodes soon.
const ASKED: usize = 3;
/// How long a node is kept that another one has named, and that not all know as a master yet.
const GUEST: Duration = Duration::from_secs(10);

/// A cluster.
pub(crate) struct Cluster {
    settings: Arc<Settings>,
    seeds: Vec<Address>,
    map: watch::Sender<Arc<SlotMap>>,
    /// Why there is no map.
    failure: Mutex<Option<Error>>,
    nodes: Mutex<HashMap<Address, Known>>,
    again: Notify,
}

/// A node that has been needed.
struct Known {
    server: Arc<Server>,
    /// When another node has last named it as the one for a slot.
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

    /// Told of each new map.
    pub(super) fn maps(&self) -> watch::Receiver<Arc<SlotMap>> {
        self.map.subscribe()
    }

    /// Waits for the first map.
    ///
    /// # Errors
    /// Why none of the nodes has one, once all have been asked.
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
            // A map, a failure, or neither for a while.
            let _ = timeout(ASK.1, maps.changed()).await;
        }
    }

    /// Waits until every master is reached. One that is not in time is left for later: a replica
    /// may be about to take its place, and those who need no slot of it need not wait. Somebody has
    /// to be reached, though.
    ///
    /// # Errors
    /// Why none is; at once when one refuses for a reason that lasts.
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
                // Who looks at the servers says who is missing.
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

    /// The connections to a node, made when they are first needed.
    fn node(&self, address: &Address) -> Arc<Server> {
        self.known(address, None)
    }

    /// The connections to a node that is taking a slot over, which may be its first.
    pub(super) fn guest(&self, address: &Address) -> Arc<Server> {
        self.known(address, Some(Instant::now()))
    }

    fn known(&self, address: &Address, guest: Option<Instant>) -> Arc<Server> {
        let mut nodes = lock(&self.nodes);
        let known = nodes.entry(address.clone()).or_insert_with(|| {
            let target = Target::Fixed(address.clone());
            Known {
                server: Server::start(&self.settings.of_node(), &target),
                guest: None,
            }
        });
        known.guest = guest.or(known.guest);
        Arc::clone(&known.server)
    }

    /// A node has told that another one has a slot. Nodes that have not heard of it yet do not end
    /// its connections.
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

    /// There is reason to ask at once.
    pub(super) fn ask_again(&self) {
        self.again.notify_one();
    }

    /// Completes with the next map; there is reason to expect one.
    pub(super) async fn changed(&self) {
        self.ask_again();
        // The sender is in `self`.
        let _ = self.maps().changed().await;
    }

    /// Why a command of this slot was not sent.
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

    /// The newest map that any of them has.
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

    /// Nodes that are no masters any more are given up, with everything that waits for them.
    fn adopt(&self, map: SlotMap) {
        let masters = map.masters();
        let gone: Vec<Arc<Server>> = {
            let mut nodes = lock(&self.nodes);
            let is_guest = |known: &Known| known.guest.is_some_and(|at| at.elapsed() < GUEST);
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
