//! What this server has done since it started.

use std::sync::atomic::{AtomicU64, Ordering};

/// A counter.
#[derive(Debug, Default)]
pub(super) struct Counter(AtomicU64);

impl Counter {
    pub(super) fn add(&self, count: u64) {
        self.0.fetch_add(count, Ordering::Relaxed);
    }

    pub(super) fn sub(&self, count: u64) {
        self.0.fetch_sub(count, Ordering::Relaxed);
    }

    pub(super) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// The counters of the statistics, by command and by connection.
#[derive(Debug, Default)]
pub(super) struct Counters {
    pub(super) put: Counter,
    pub(super) peek: Counter,
    pub(super) peek_ready: Counter,
    pub(super) peek_delayed: Counter,
    pub(super) peek_buried: Counter,
    pub(super) reserve: Counter,
    pub(super) reserve_with_timeout: Counter,
    pub(super) delete: Counter,
    pub(super) release: Counter,
    pub(super) use_tube: Counter,
    pub(super) watch: Counter,
    pub(super) ignore: Counter,
    pub(super) bury: Counter,
    pub(super) kick: Counter,
    pub(super) touch: Counter,
    pub(super) stats: Counter,
    pub(super) stats_job: Counter,
    pub(super) stats_tube: Counter,
    pub(super) list_tubes: Counter,
    pub(super) list_tube_used: Counter,
    pub(super) list_tubes_watched: Counter,
    pub(super) pause_tube: Counter,
    pub(super) timeouts: Counter,
    pub(super) jobs: Counter,
    pub(super) connections: Counter,
    pub(super) connections_ever: Counter,
    pub(super) producers: Counter,
    pub(super) workers: Counter,
    pub(super) waiting: Counter,
}
