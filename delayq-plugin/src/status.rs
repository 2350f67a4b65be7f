//! State of one handler, for its health.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use delayq_core::Error;
use delayq_core::store::Bucket;
use tracing::{debug, info, warn};

use crate::health::HandlerHealth;

/// What a handler lets others see, shared between its thread and `health()`.
#[derive(Clone, Debug)]
pub(crate) struct Status {
    shared: Arc<Mutex<Seen>>,
}

#[derive(Debug)]
struct Seen {
    health: HandlerHealth,
    /// `Clock::elapsed` when the last claim that succeeded was sent.
    claimed_at: Option<Duration>,
    /// The kinds of calls whose last answer was an error.
    failing: Vec<&'static str>,
}

impl Status {
    pub(crate) fn new(bucket: Bucket) -> Self {
        let seen = Seen {
            health: HandlerHealth::new(bucket),
            claimed_at: None,
            failing: Vec::new(),
        };
        Self {
            shared: Arc::new(Mutex::new(seen)),
        }
    }

    pub(crate) fn update(&self, change: impl FnOnce(&mut HandlerHealth)) {
        change(&mut self.lock().health);
    }

    /// A claim that was sent at `sent_at` succeeded.
    pub(crate) fn claimed(&self, sent_at: Duration) {
        let mut seen = self.lock();
        seen.claimed_at = Some(sent_at);
        seen.health.failures_in_a_row = 0;
        seen.health.last_error = None;
    }

    /// A call failed. The log has one line when an outage of a kind of calls begins, and one when
    /// it is over.
    pub(crate) fn failed(&self, call: &'static str, error: Error) {
        let mut seen = self.lock();
        let bucket = &seen.health.bucket;
        if seen.failing.contains(&call) {
            debug!(%bucket, call, %error, "the store still fails");
        } else {
            warn!(%bucket, call, %error, "the store failed; trying again until it answers");
            seen.failing.push(call);
        }
        let failures = &mut seen.health.failures_in_a_row;
        *failures = failures.saturating_add(1);
        seen.health.last_error = Some(error);
    }

    /// A call of this kind was answered.
    pub(crate) fn answered(&self, call: &'static str) {
        let mut seen = self.lock();
        if seen.failing.contains(&call) {
            seen.failing.retain(|failing| *failing != call);
            info!(bucket = %seen.health.bucket, call, "the store answers again");
        }
    }

    pub(crate) fn health(&self, elapsed: Duration) -> HandlerHealth {
        let seen = self.lock();
        let mut health = seen.health.clone();
        health.since_last_claim = seen.claimed_at.map(|at| elapsed.saturating_sub(at));
        health
    }

    fn lock(&self) -> MutexGuard<'_, Seen> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
