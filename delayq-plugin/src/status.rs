//! The state of one handler, for its health.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use delayq_core::Error;
use delayq_core::store::Bucket;
use tracing::{debug, info, warn};

use crate::health::HandlerHealth;
use crate::outage::{OutageCaller, OutageLog};

/// The visible state of a handler, shared between its thread and `health()`.
#[derive(Clone, Debug)]
pub(crate) struct Status {
    shared: Arc<Mutex<SeenStatus>>,
}

#[derive(Debug)]
struct SeenStatus {
    health: HandlerHealth,
    /// `Clock::elapsed` when the last claim that succeeded was sent.
    claimed_at: Option<Duration>,
    /// The kinds of calls whose last answer was an outage: the store is away or full.
    failing: Vec<&'static str>,
    /// The kinds of calls whose last answer was a refusal concerning this bucket.
    refused: Vec<&'static str>,
    outage: OutageCaller,
}

impl SeenStatus {
    /// The store has answered a call of this kind.
    fn is_answered(&mut self, call: &'static str) {
        self.failing.retain(|failing| *failing != call);
        if self.failing.is_empty() {
            self.outage.answered();
        }
    }
}

impl Status {
    pub(crate) fn new(bucket: Bucket, outages: &OutageLog) -> Self {
        let seen = SeenStatus {
            outage: outages.caller(bucket.to_string()),
            health: HandlerHealth::new(bucket),
            claimed_at: None,
            failing: Vec::new(),
            refused: Vec::new(),
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

    /// A call failed. An outage of the store has one line in the log for all handlers. A refusal
    /// concerning this bucket has a line of its own when it begins and when it ends.
    pub(crate) fn failed(&self, call: &'static str, error: Error) {
        let mut seen = self.lock();
        let bucket = &seen.health.bucket;
        if error.is_transient() {
            seen.outage.failed(&error);
            note(&mut seen.failing, call);
        } else {
            let is_news = !seen.refused.contains(&call);
            if is_news {
                warn!(%bucket, call, %error, "the store refused; trying again until it answers");
            } else {
                debug!(%bucket, call, %error, "the store still refuses");
            }
            note(&mut seen.refused, call);
            // A refusal is an answer, so there is no outage.
            seen.is_answered(call);
        }
        let failures = &mut seen.health.failures_in_a_row;
        *failures = failures.saturating_add(1);
        seen.health.last_error = Some(error);
    }

    /// A call of this kind was answered.
    pub(crate) fn answered(&self, call: &'static str) {
        let mut seen = self.lock();
        seen.is_answered(call);
        if seen.refused.contains(&call) {
            seen.refused.retain(|refused| *refused != call);
            info!(bucket = %seen.health.bucket, call, "the store answers again");
        }
    }

    pub(crate) fn health(&self, elapsed: Duration) -> HandlerHealth {
        let seen = self.lock();
        let mut health = seen.health.clone();
        health.since_last_claim = seen.claimed_at.map(|at| elapsed.saturating_sub(at));
        health
    }

    fn lock(&self) -> MutexGuard<'_, SeenStatus> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn note(calls: &mut Vec<&'static str>, call: &'static str) {
    if !calls.contains(&call) {
        calls.push(call);
    }
}
