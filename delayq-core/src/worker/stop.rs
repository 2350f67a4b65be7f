//! Signal that asks an attempt to stop.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::Notify;

/// A switch that is set once. Clones share it; [`TaskContext`](super::TaskContext) listens to one.
#[derive(Clone, Debug, Default)]
pub struct StopSignal {
    state: Arc<StopState>,
}

#[derive(Debug, Default)]
struct StopState {
    is_stopped: AtomicBool,
    listeners: Notify,
}

impl StopSignal {
    /// A signal that has not been given yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Gives the signal, for good. Repeating it changes nothing.
    pub fn stop(&self) {
        self.state.is_stopped.store(true, Ordering::Release);
        self.state.listeners.notify_waiters();
    }

    /// True if the signal was given.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        self.state.is_stopped.load(Ordering::Acquire)
    }

    /// Completes once the signal is given, or at once if it was given before.
    pub async fn stopped(&self) {
        let mut notified = pin!(self.state.listeners.notified());
        // Listening begins before the check, so that a signal given in between is not missed.
        notified.as_mut().enable();
        if !self.is_stopped() {
            notified.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn every_listener_hears_a_signal_given_before_or_after() {
        let signal = StopSignal::new();
        let early = tokio::spawn({
            let signal = signal.clone();
            async move { signal.stopped().await }
        });
        tokio::task::yield_now().await;
        assert!(!signal.is_stopped() && !early.is_finished());
        signal.stop();
        signal.stop();
        early.await.unwrap();
        signal.clone().stopped().await;
        assert!(signal.is_stopped());
    }
}
