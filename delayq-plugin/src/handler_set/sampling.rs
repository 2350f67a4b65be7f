//! Sampling: sets the store's gauges, together with facts known to the handlers here.

use std::sync::Arc;
use std::time::Duration;

use super::shared::Shared;
use crate::metric::{INTERVAL, Own, Sampler};

/// The rounds through the store's types. Makes no calls unless there are gauges.
#[derive(Debug)]
pub(super) struct Sampling {
    sampler: Option<Sampler>,
    pub(super) next_at: Duration,
}

impl Sampling {
    pub(super) fn new(shared: &Shared) -> Self {
        let settings = &shared.settings;
        let metrics = settings.telemetry.metrics.clone();
        let metrics = metrics.filter(|_| settings.has_gauges);
        let sampler = metrics.map(|metrics| {
            let (store, clock) = (Arc::clone(&shared.store), Arc::clone(&settings.clock));
            Sampler::new(store, clock, metrics)
        });
        Self {
            next_at: match sampler {
                Some(_) => shared.elapsed(),
                None => Duration::MAX,
            },
            sampler,
        }
    }

    /// Sets the gauges of the next types.
    pub(super) async fn round(&mut self, shared: &Shared) {
        self.next_at = shared.elapsed().saturating_add(INTERVAL);
        let Some(sampler) = &mut self.sampler else {
            return;
        };
        let handlers = shared.health().into_iter();
        let skews = handlers.filter_map(|health| Some((health.task_type, health.clock_skew?)));
        let own = Own {
            served: shared.served().into_iter().collect(),
            skews: skews.collect(),
            instances: 1,
        };
        sampler.round(&own).await;
    }
}
