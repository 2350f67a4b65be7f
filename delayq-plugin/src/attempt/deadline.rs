//! Deadline of a lease.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The time when a lock expires, counted from before the call that took or extended it, so never
/// later than in the store. The runtime checks it before a worker starts, too.
#[derive(Clone, Debug)]
pub(crate) struct LeaseDeadline(Arc<AtomicU64>);

impl LeaseDeadline {
    /// `sent_at` is [`Clock::elapsed`](delayq_core::Clock::elapsed).
    pub(crate) fn new(sent_at: Duration, lock_for: Duration) -> Self {
        let this = Self(Arc::default());
        this.put_off(sent_at, lock_for);
        this
    }

    pub(crate) fn at(&self) -> Duration {
        Duration::from_micros(self.0.load(Ordering::Relaxed))
    }

    pub(crate) fn put_off(&self, sent_at: Duration, lock_for: Duration) {
        let at = sent_at.saturating_add(lock_for).as_micros();
        let at = u64::try_from(at).unwrap_or(u64::MAX);
        self.0.store(at, Ordering::Relaxed);
    }
}
