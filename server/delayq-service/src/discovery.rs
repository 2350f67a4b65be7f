//! Discovery: finds the instances of applications, their types and their URLs.
//!
//! Three sources come from the configuration: a Eureka registry, fixed addresses and DNS names.
//! Announcements that applications send to the server belong to their namespace.

use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use delayq_endpoint::{EurekaClient, EurekaInstance, Registration};
use delayq_plugin::{Namespace, TaskType};
use tokio::time::Instant;
use tracing::{debug, info, warn};

mod config;
mod dns;
mod eureka;
mod fixed;
#[cfg(feature = "fuzz")]
pub mod fuzz;
mod index;
mod instance;
mod registry;
mod secrets;
#[cfg(test)]
mod tests;

pub use self::config::ServiceConfig;
pub use self::eureka::{app, home};
pub use self::index::Index;
pub use self::instance::{Form, Instance, Trust};

/// How long an instance that did not answer is tried after all others.
const DOUBT: Duration = Duration::from_secs(30);

/// A source of instances.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum InstanceSource {
    Eureka,
    Fixed,
    Dns,
}

/// All instances found through the configuration.
#[derive(Debug)]
pub struct Discovery {
    config: ServiceConfig,
    found: RwLock<HashMap<InstanceSource, Vec<Arc<Instance>>>>,
    index: RwLock<Arc<Index>>,
    /// The records of the registry, unchanged.
    records: RwLock<Arc<Vec<serde_json::Value>>>,
    /// Instances that did not answer, by URL, with the time until which they are tried after all
    /// others.
    doubts: Mutex<HashMap<String, Instant>>,
    turn: AtomicUsize,
}

impl Discovery {
    pub fn new(config: &ServiceConfig) -> Self {
        let discovery = Self {
            config: config.clone(),
            found: RwLock::default(),
            index: RwLock::default(),
            records: RwLock::default(),
            doubts: Mutex::default(),
            turn: AtomicUsize::new(fastrand::usize(..1_000)),
        };
        discovery.put(InstanceSource::Fixed, fixed::instances(config));
        discovery
    }

    /// Returns true if the discovered instances serve the tasks of a namespace.
    pub fn is_for(&self, namespace: &Namespace) -> bool {
        self.config.namespace == namespace.as_str()
    }

    /// The options.
    pub fn config(&self) -> &ServiceConfig {
        &self.config
    }

    /// The instances by type.
    pub fn index(&self) -> Arc<Index> {
        Arc::clone(&self.index.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// The records of the registry, one for each instance.
    pub fn records(&self) -> Arc<Vec<serde_json::Value>> {
        Arc::clone(&self.records.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Keeps the list of instances up to date; never returns.
    pub async fn run(self: Arc<Self>) {
        tokio::join!(eureka::follow(&self), dns::follow(&self));
    }

    /// Announces the server itself in the registry, where the configuration says its address.
    pub fn announce(&self) -> Option<Registration> {
        let eureka = &self.config.eureka;
        let address = eureka.address.as_deref()?;
        let client = EurekaClient::new(&eureka.urls);
        let instance = EurekaInstance::new(&eureka.app, address);
        match (client, instance) {
            (Ok(client), Ok(instance)) => {
                let instance = instance.heartbeat(eureka.heartbeat());
                Some(Registration::registered(client, instance))
            }
            (Err(error), _) | (_, Err(error)) => {
                warn!(%error, "cannot register the server in Eureka");
                None
            }
        }
    }

    fn put(&self, source: InstanceSource, instances: Vec<Instance>) {
        let mut found = self.found.write().unwrap_or_else(PoisonError::into_inner);
        let before = found.get(&source);
        let is_same = before.is_some_and(|before| {
            let before = before.iter().map(|one| &**one);
            before.eq(instances.iter())
        });
        if is_same || (before.is_none() && instances.is_empty()) {
            return;
        }
        info!(
            ?source,
            instances = instances.len(),
            "the list of instances has changed"
        );
        let instances = instances.into_iter().map(Arc::new).collect();
        found.insert(source, instances);
        let index = Index::new(found.values().flatten().cloned());
        *self.index.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(index);
    }

    fn keep(&self, records: Vec<serde_json::Value>) {
        *self.records.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(records);
    }

    /// Sorts instances for a call: round robin, with instances that did not answer last.
    pub fn ordered(&self, mut instances: Vec<Arc<Instance>>) -> Vec<Arc<Instance>> {
        if instances.len() > 1 {
            let turn = self.turn.fetch_add(1, Ordering::Relaxed);
            let first = turn.checked_rem(instances.len()).unwrap_or_default();
            instances.rotate_left(first);
            let now = Instant::now();
            let doubts = self.doubts.lock().unwrap_or_else(PoisonError::into_inner);
            instances.sort_by_key(|one| doubts.get(&one.url).is_some_and(|until| *until > now));
        }
        instances
    }

    /// Notes that an instance did not answer; others are tried before it for a while.
    pub fn doubt(&self, instance: &Instance, reason: &str) {
        debug!(url = instance.url, reason, "an instance did not answer");
        let now = Instant::now();
        let mut doubts = self.doubts.lock().unwrap_or_else(PoisonError::into_inner);
        doubts.retain(|_, until| *until > now);
        doubts.insert(instance.url.clone(), now + DOUBT);
    }

    /// Notes that an instance has answered.
    pub fn trust(&self, instance: &Instance) {
        let mut doubts = self.doubts.lock().unwrap_or_else(PoisonError::into_inner);
        if !doubts.is_empty() {
            doubts.remove(&instance.url);
        }
    }

    /// The types that have at least one instance.
    pub fn types(&self) -> BTreeSet<TaskType> {
        self.index().types().cloned().collect()
    }
}
