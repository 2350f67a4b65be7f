//! Sampler: asks a store for the numbers that are no counts of this process.

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

/// How often.
pub(crate) const INTERVAL: Duration = Duration::from_secs(15);
/// Types of one round, so that a store with many types is not asked for all at once: each is two
/// calls at most.
const TYPES_PER_ROUND: usize = 100;

/// What this process knows of its types beside the store.
#[derive(Debug, Default)]
pub(crate) struct Own {
    /// What it serves: not every store lists instances, and they announce a new type a moment
    /// later.
    pub(crate) served: BTreeSet<TaskType>,
    /// The clocks, as its handlers saw them last.
    pub(crate) skews: BTreeMap<TaskType, ClockSkew>,
    /// How many instances run in this process.
    pub(crate) instances: usize,
}

/// The rounds through the types of a store.
#[derive(Debug)]
pub(crate) struct Sampler {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    metrics: Metrics,
    samples: Samples,
    /// The types whose gauges were set, and are to be cleared when the type is gone.
    sampled: BTreeSet<TaskType>,
    /// Where the next round goes on.
    last: Option<TaskType>,
}

impl Sampler {
    /// A sampler of a store that was just opened: from now on it counts how long it is silent.
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

    /// Sets the gauges of the next types. While the store does not answer they stay as they are.
    pub(crate) async fn round(&mut self, own: &Own) {
        match self.sample(own).await {
            Ok(()) => self.samples.sampled(self.clock.now()),
            Err(error) => debug!(%error, "the gauges stay as they are"),
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
                // A damaged type hides no other.
                Err(error) => {
                    debug!(%task_type, %error, "the gauges of this type stay as they are");
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

    /// The types after the last one, and again from the first on.
    fn next_types(&self, types: &BTreeSet<TaskType>) -> Vec<TaskType> {
        let after = self.last.as_ref().map_or(Bound::Unbounded, Bound::Excluded);
        let rest = types.range((after, Bound::Unbounded));
        let round = rest.chain(types).take(types.len().min(TYPES_PER_ROUND));
        round.cloned().collect()
    }
}

/// How long the first dead task has been dead; `None`: not known.
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
