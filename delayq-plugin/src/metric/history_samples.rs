//! Metrics of the history.

use std::time::Duration;

use delayq_core::history::EndsStatus;
use metrics::{Counter, Gauge, SharedString, counter, gauge};

use super::table::{
    HISTORY_BEHIND, HISTORY_FILL, HISTORY_LOST, HISTORY_SHIPPED, HISTORY_WAITING, NAMESPACE,
};

/// The metrics of a process that ships.
#[derive(Debug)]
pub(crate) struct HistorySamples {
    waiting: Gauge,
    behind: Gauge,
    fill: Gauge,
    lost: Counter,
    shipped: Counter,
}

impl HistorySamples {
    pub(crate) fn new(namespace: &SharedString) -> Self {
        Self {
            waiting: gauge!(HISTORY_WAITING, NAMESPACE => namespace.clone()),
            behind: gauge!(HISTORY_BEHIND, NAMESPACE => namespace.clone()),
            fill: gauge!(HISTORY_FILL, NAMESPACE => namespace.clone()),
            lost: counter!(HISTORY_LOST, NAMESPACE => namespace.clone()),
            shipped: counter!(HISTORY_SHIPPED, NAMESPACE => namespace.clone()),
        }
    }

    pub(crate) fn shipped(&self, records: u64) {
        self.shipped.increment(records);
    }

    /// Sets what the store said, and what the history has refused; it is `behind` that far.
    #[allow(
        clippy::cast_precision_loss,
        reason = "a gauge is a float; counts below 2^53 are exact"
    )]
    pub(crate) fn waiting(&self, status: &EndsStatus, refused: u64, behind: Duration) {
        self.waiting.set(status.waiting as f64);
        self.behind.set(behind);
        self.fill
            .set(status.bytes as f64 / status.limit.max(1) as f64);
        self.lost.absolute(status.lost.saturating_add(refused));
    }
}
