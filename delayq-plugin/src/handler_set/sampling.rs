//! Sampling: asks the store for the numbers that are no counts of this process.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::time::Duration;

use delayq_core::operate::TypeStats;
use delayq_core::{Result, Store, TaskState, TaskType};
use tracing::debug;

use super::shared::Shared;
use crate::clock_skew::ClockSkew;
use crate::metric::{Metrics, TypeSample};

/// How often.
const INTERVAL: Duration = Duration::from_secs(15);
/// Types of one round, so that a store with many types is not asked for all at once: each is two
/// calls at most.
const TYPES_PER_ROUND: usize = 100;

/// The rounds through the types of the store. It asks for nothing unless there are metrics.
#[derive(Debug)]
pub(super) struct Sampling {
    metrics: Option<Metrics>,
    /// The types whose gauges were set, and are to be cleared when the type is gone.
    sampled: BTreeSet<TaskType>,
    /// Where the next round goes on.
    last: Option<TaskType>,
    pub(super) next_at: Duration,
}

impl Sampling {
    pub(super) fn new(shared: &Shared) -> Self {
        let metrics = shared.settings.telemetry.metrics.clone();
        Self {
            next_at: match metrics {
                Some(_) => shared.elapsed(),
                None => Duration::MAX,
            },
            metrics,
            sampled: BTreeSet::new(),
            last: None,
        }
    }

    /// Sets the gauges of the next types.
    pub(super) async fn round(&mut self, shared: &Shared) {
        self.next_at = shared.elapsed().saturating_add(INTERVAL);
        let Some(metrics) = self.metrics.clone() else {
            return;
        };
        match self.sample(shared, &metrics).await {
            Ok(()) => metrics.samples().sampled(shared.settings.clock.now()),
            Err(error) => debug!(%error, "the gauges stay as they are"),
        }
    }

    async fn sample(&mut self, shared: &Shared, metrics: &Metrics) -> Result<()> {
        let store = &*shared.store;
        // Not fewer than this one, in a store without a list of them.
        let instances = store.instances().await?.len().max(1);
        metrics.samples().instances(instances);
        let types: BTreeSet<_> = store.types().await?.into_iter().collect();
        let served: BTreeSet<_> = shared.served().into_iter().collect();
        let skews = skews(shared);
        for gone in self.sampled.difference(&types) {
            let nothing = TypeSample {
                oldest_dead: Some(Duration::ZERO),
                ..TypeSample::default()
            };
            metrics.set(gone, &nothing);
        }
        self.sampled.retain(|task_type| types.contains(task_type));
        for task_type in self.next_types(&types) {
            self.last = Some(task_type.clone());
            let stats = match store.stats(&task_type).await {
                Ok(stats) => stats,
                Err(error) if error.is_transient() => return Err(error),
                // A damaged type hides no other.
                Err(error) => {
                    debug!(%task_type, %error, "the gauges of this type stay as they are");
                    continue;
                }
            };
            let sample = TypeSample {
                oldest_dead: oldest_dead(store, &task_type, &stats).await,
                stats,
                is_served: served.contains(&task_type),
                clock_skew: skews.get(&task_type).copied(),
            };
            metrics.set(&task_type, &sample);
            self.sampled.insert(task_type);
        }
        Ok(())
    }

    /// The types after the last one, and again from the first on.
    fn next_types(&self, types: &BTreeSet<TaskType>) -> Vec<TaskType> {
        let after = self.last.as_ref().map_or(Bound::Unbounded, Bound::Excluded);
        let rest = types.range((after, Bound::Unbounded));
        let round = rest.chain(types).take(types.len().min(TYPES_PER_ROUND));
        round.cloned().collect()
    }
}

/// The clocks of the store and of this host, as the handlers of each type saw them last.
fn skews(shared: &Shared) -> BTreeMap<TaskType, ClockSkew> {
    let handlers = shared.health().into_iter();
    let skewed = handlers.filter_map(|health| Some((health.task_type, health.clock_skew?)));
    skewed.collect()
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
