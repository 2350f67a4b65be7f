//! Gauges of the store's own numbers.

use std::time::Duration;

use delayq_core::Timestamp;
use delayq_core::operate::TypeStats;
use metrics::{Gauge, SharedString, gauge};

use super::table::{
    CLOCK_SKEW, DUE, INSTANCES, NAMESPACE, OLDEST_DEAD, OLDEST_DUE, PAUSED, SAMPLED, SERVED, TASKS,
};
use super::type_labels::TypeLabels;
use crate::clock_skew::ClockSkew;

/// The numbers of one type.
#[derive(Debug, Default)]
pub(super) struct TypeSample {
    pub(super) stats: TypeStats,
    /// How long the oldest dead task has been dead; `None` if not known.
    pub(super) oldest_dead: Option<Duration>,
    pub(super) is_served: bool,
    pub(super) clock_skew: Option<ClockSkew>,
}

impl TypeSample {
    /// The numbers of a type that is gone.
    pub(super) fn nothing() -> Self {
        Self {
            oldest_dead: Some(Duration::ZERO),
            ..Self::default()
        }
    }

    pub(super) fn set(&self, labels: &TypeLabels) {
        let states = [
            ("scheduled", self.stats.scheduled),
            ("running", self.stats.running),
            ("dead", self.stats.dead),
        ];
        for (state, count) in states {
            labels.gauge_of(TASKS, "state", state).set(number(count));
        }
        let flag = |is: bool| number(u64::from(is));
        labels.gauge(DUE).set(number(self.stats.due));
        labels.gauge(OLDEST_DUE).set(self.stats.oldest_age());
        if let Some(oldest) = self.oldest_dead {
            labels.gauge(OLDEST_DEAD).set(oldest);
        }
        let is_paused = self.stats.paused_until.is_some();
        labels.gauge(PAUSED).set(flag(is_paused));
        labels.gauge(SERVED).set(flag(self.is_served));
        labels.gauge(CLOCK_SKEW).set(seconds_ahead(self.clock_skew));
    }
}

/// Gauges of the whole store. Only a process that samples has them: a process that only sends would
/// leave them at 0, as if the store had never answered.
#[derive(Debug)]
pub(super) struct Samples {
    instances: Gauge,
    sampled: Gauge,
}

impl Samples {
    pub(super) fn new(namespace: &SharedString) -> Self {
        Self {
            instances: gauge!(INSTANCES, NAMESPACE => namespace.clone()),
            sampled: gauge!(SAMPLED, NAMESPACE => namespace.clone()),
        }
    }

    pub(super) fn instances(&self, count: usize) {
        self.instances.set(number(count as u64));
    }

    /// The store answered all calls of a round.
    pub(super) fn sampled(&self, now: Timestamp) {
        let since_1970 = u64::try_from(now.as_millis()).unwrap_or_default();
        self.sampled.set(Duration::from_millis(since_1970));
    }
}

/// Positive if the store's clock, or the fences of other instances, are ahead.
fn seconds_ahead(skew: Option<ClockSkew>) -> f64 {
    match skew {
        None => 0.0,
        Some(ClockSkew::StoreBehind(span)) => -span.as_secs_f64(),
        Some(skew) => skew.span().as_secs_f64(),
    }
}

#[allow(
    clippy::cast_precision_loss,
    reason = "a gauge is a float; counts below 2^53 are exact"
)]
fn number(count: u64) -> f64 {
    count as f64
}
