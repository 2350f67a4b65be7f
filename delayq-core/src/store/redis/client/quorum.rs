//! How many replicas have to confirm what is written.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use super::super::config::{RedisConfig, RedisServers, ReplicaConfirm};
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
    replicas: AtomicU32,
}

impl Quorum {
    pub(super) fn new(config: &RedisConfig, timeout: Duration) -> Self {
        let has_sentinels = matches!(config.servers, RedisServers::Sentinel { .. });
        Self {
            within: timeout / CONFIRM_SHARE,
            synced: config.confirm == ReplicaConfirm::Synced,
            follows: config.replicas.is_none() && has_sentinels,
            replicas: AtomicU32::new(config.least_replicas()),
        }
    }

    /// As many as have to confirm what is sent now.
    pub(super) fn confirm(&self) -> Confirm {
        Confirm {
            replicas: self.replicas(),
            within: self.within,
            synced: self.synced,
        }
    }

    /// Whether the sentinels have to be asked for the replicas.
    pub(super) fn follows(&self) -> bool {
        self.follows
    }

    /// So many may become the master.
    pub(super) fn follow(&self, replicas: u32, store: &str) {
        let replicas = replicas.max(1);
        let before = self.replicas.swap(replicas, Ordering::Relaxed);
        if before != replicas {
            tracing::info!(
                store,
                replicas,
                before,
                "the number of replicas that have to confirm each write has changed"
            );
        }
    }

    /// Whether that is no shortage any more: a replica may have gone while it was waited for.
    pub(super) fn suffices(&self, shortage: &Shortage) -> bool {
        self.follows && shortage.confirmed >= self.replicas()
    }

    fn replicas(&self) -> u32 {
        self.replicas.load(Ordering::Relaxed)
    }
}
