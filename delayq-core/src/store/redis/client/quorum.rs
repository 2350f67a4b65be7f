//! How many replicas have to confirm what is written.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::super::config::{Address, RedisConfig, RedisServers, ReplicaConfirm};
use super::batch::{Confirm, Shortage};

/// The share of the timeout, as a divisor, that replicas may take to confirm: what waits behind it on the same
/// connection has to be answered, too.
const CONFIRM_SHARE: u32 = 4;

/// How many replicas have to confirm a write.
///
/// A number that is given is that number. Otherwise it is one, and behind sentinels as many as they may make the
/// master, see [`Replicas`](super::replicas::Replicas).
#[derive(Debug)]
pub(super) struct Quorum {
    within: Duration,
    synced: bool,
    follows: bool,
    known: Mutex<Known>,
}

/// What is known of it.
#[derive(Debug)]
struct Known {
    replicas: u32,
    /// Whose they are, where the sentinels are asked.
    master: Option<Address>,
}

impl Quorum {
    pub(super) fn new(config: &RedisConfig, timeout: Duration) -> Self {
        let has_sentinels = matches!(config.servers, RedisServers::Sentinel { .. });
        Self {
            within: timeout / CONFIRM_SHARE,
            synced: config.confirm == ReplicaConfirm::Synced,
            follows: config.replicas.is_none() && has_sentinels,
            known: Mutex::new(Known {
                replicas: config.least_replicas(),
                master: None,
            }),
        }
    }

    /// As many as have to confirm what is sent now.
    pub(super) fn confirm(&self) -> Confirm {
        Confirm {
            replicas: self.known().replicas,
            within: self.within,
            synced: self.synced,
        }
    }

    /// Whether the sentinels have to be asked for the replicas.
    pub(super) fn follows(&self) -> bool {
        self.follows
    }

    /// So many may become the master after this one.
    pub(super) fn follow(&self, master: &Address, replicas: u32, store: &str) {
        let mut known = self.known();
        let replicas = replicas.max(1);
        if known.replicas != replicas {
            let before = known.replicas;
            tracing::info!(
                store,
                replicas,
                before,
                "the number of replicas that have to confirm each write has changed"
            );
        }
        known.replicas = replicas;
        known.master = Some(master.clone());
    }

    /// What is missing to a write to this server, now that it has been answered. A replica may have gone while it was
    /// waited for; and if another server is the master by now, as many as that one needs say nothing of this one.
    pub(super) fn missing(&self, shortage: Option<Shortage>, server: &Address) -> Option<Shortage> {
        if !self.follows {
            return shortage;
        }
        let known = self.known();
        if known.master.as_ref() != Some(server) {
            let no_master = || Shortage {
                confirmed: 0,
                detail: "another server is the master by now".to_owned(),
            };
            return shortage.or_else(|| Some(no_master()));
        }
        shortage.filter(|shortage| shortage.confirmed < known.replicas)
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
