//! Sampler: asks a store for the numbers that this process does not count.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;
use std::time::Duration;

use delayq_core::operate::TypeStats;
use delayq_core::presence::{InstanceInfo, serving};
use delayq_core::{Clock, Result, Store, TaskState, TaskType};
use tracing::debug;

use super::process::Metrics;
use super::samples::{Samples, TypeSample};
use crate::clock_skew::ClockSkew;

/// The interval between rounds.
pub(crate) const INTERVAL: Duration = Duration::from_secs(15);
/// Number of types in one round, so that a store with many types is not asked for all at once: each
/// type takes up to two calls.
const TYPES_PER_ROUND: usize = 100;

/// Facts known to this process and not to the store.
#[derive(Debug, Default)]
pub(crate) struct Own {
    /// The types served here: not every store lists instances, and a new type is announced a moment
    /// later.
    pub(crate) served: BTreeSet<TaskType>,
    /// The clock skews last seen by its handlers.
    pub(crate) skews: BTreeMap<TaskType, ClockSkew>,
    /// Number of instances running in this process.
    pub(crate) instances: usize,
}

/// The rounds through the types of a store.
#[derive(Debug)]
pub(crate) struct Sampler {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    metrics: Metrics,
    samples: Samples,
    /// The types whose gauges were set; they are cleared once the type is gone.
    sampled: BTreeSet<TaskType>,
    /// The last type of the previous round.
    last: Option<TaskType>,
}

impl Sampler {
    /// A sampler for a store that was just opened. From now on it measures how long the store has
    /// not answered.
    pub(crate) fn new(store: Arc<dyn Store>, clock: Arc<dyn Clock>, metrics: Metrics) -> Self {
        let samples = Samples::new(metrics.namespace());
        samples.sampled(clock.now());
        Self {
            store,
            clock,
            metrics,
            samples,
            sampled: BTreeSet::new(),
            last: None,
        }
    }

    /// Sets the gauges of the next types. Without an answer of the store they keep their values.
    pub(crate) async fn round(&mut self, own: &Own) {
        match self.sample(own).await {
            Ok(()) => self.samples.sampled(self.clock.now()),
            Err(error) => debug!(%error, "cannot read the counts; the gauges keep their values"),
        }
    }

    async fn sample(&mut self, own: &Own) -> Result<()> {
        let instances = self.store.instances().await?;
        self.samples.instances(instances.len().max(own.instances));
        let types: BTreeSet<_> = self.store.types().await?.into_iter().collect();
        for gone in self.sampled.difference(&types) {
            self.metrics.set(gone, &TypeSample::nothing());
        }
        self.sampled.retain(|task_type| types.contains(task_type));
        for task_type in self.next_types(&types) {
            self.last = Some(task_type.clone());
            match self.sample_of(&task_type, &instances, own).await {
                Ok(sample) => self.metrics.set(&task_type, &sample),
                Err(error) if error.is_transient() => return Err(error),
                // A damaged type must not hide the others.
                Err(error) => {
                    debug!(%task_type, %error, "cannot read the counts of this type; its gauges keep their values");
                    continue;
                }
            }
            self.sampled.insert(task_type);
        }
        Ok(())
    }

    async fn sample_of(
        &self,
        task_type: &TaskType,
        instances: &[InstanceInfo],
        own: &Own,
    ) -> Result<TypeSample> {
        let before = self.clock.now();
        let stats = self.store.stats(task_type).await?;
        let skew = ClockSkew::between(stats.now, before, self.clock.now());
        Ok(TypeSample {
            oldest_dead: oldest_dead(&*self.store, task_type, &stats).await,
            is_served: own.served.contains(task_type) || serving(instances, task_type) > 0,
            clock_skew: own.skews.get(task_type).copied().or(skew),
            stats,
        })
    }

    /// The types after the last one, starting over after the end.
    fn next_types(&self, types: &BTreeSet<TaskType>) -> Vec<TaskType> {
        let after = self.last.as_ref().map_or(Bound::Unbounded, Bound::Excluded);
        let rest = types.range((after, Bound::Unbounded));
        let round = rest.chain(types).take(types.len().min(TYPES_PER_ROUND));
        round.cloned().collect()
    }
}

/// How long the oldest dead task has been dead; `None` if not known.
async fn oldest_dead(
    store: &dyn Store,
    task_type: &TaskType,
    stats: &TypeStats,
) -> Option<Duration> {
    if stats.dead == 0 {
        return Some(Duration::ZERO);
    }
    let page = store.list(task_type, TaskState::Dead, None, 1).await.ok()?;
    let first = page.tasks.first();
    Some(first.map_or(Duration::ZERO, |first| stats.now.since(first.at)))
}
