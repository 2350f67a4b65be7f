//! Workers of one type.

use std::sync::Arc;

use delayq_core::{AttemptHistory, Delivery, WorkerOptions};

use super::Worker;

/// The workers of one type; never empty. All of them run for each task.
#[derive(Clone, Debug)]
pub(crate) struct TypeWorkers(Arc<[Worker]>);

impl TypeWorkers {
    pub(crate) fn new(workers: Vec<Worker>) -> Self {
        Self(workers.into())
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn get(&self, index: usize) -> Option<&Worker> {
        self.0.get(index)
    }

    /// The same workers. `of` computes the new options of each from its own and those of its
    /// counterpart in `other`.
    pub(crate) fn with_options(
        &self,
        other: &Self,
        of: fn(WorkerOptions, WorkerOptions) -> WorkerOptions,
    ) -> Self {
        let pairs = self.0.iter().zip(other.0.iter());
        let workers = pairs.map(|(worker, other)| Worker {
            options: of(worker.options, other.options),
            ..worker.clone()
        });
        Self(workers.collect())
    }

    pub(crate) fn iter(&self) -> std::slice::Iter<'_, Worker> {
        self.0.iter()
    }

    /// True if these are the same workers with the same options.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        let mut pairs = self.0.iter().zip(other.0.iter());
        self.len() == other.len()
            && pairs.all(|(one, other)| {
                Arc::ptr_eq(&one.code, &other.code) && one.options == other.options
            })
    }

    /// The stable names, for the log.
    pub(crate) fn names(&self) -> Vec<&str> {
        self.0.iter().map(|worker| &*worker.name).collect()
    }

    /// The options of the type as a whole; see [`WorkerOptions`] for how they combine.
    pub(crate) fn combined(&self) -> WorkerOptions {
        let mut options = self.0.iter().map(|worker| worker.options);
        let first = options.next().unwrap_or_default();
        options.fold(first, |all, one| WorkerOptions {
            timeout: all.timeout.max(one.timeout),
            lock: all.lock.max(one.lock),
            concurrency: all.concurrency.min(one.concurrency),
            pool: all.pool.or(one.pool),
            weight: all.weight.max(one.weight),
            delivery: match (all.delivery, one.delivery) {
                (Delivery::AtMostOnce, Delivery::AtMostOnce) => Delivery::AtMostOnce,
                _ => Delivery::AtLeastOnce,
            },
            fleet: all.fleet.tighter(one.fleet),
            max_pending: [all.max_pending, one.max_pending]
                .into_iter()
                .flatten()
                .min(),
            shards: all.shards.max(one.shards),
            history: all.history.or(one.history),
            ..all
        })
    }

    /// The workers that have not succeeded yet, with their indexes.
    pub(crate) fn open(&self, history: &AttemptHistory) -> impl Iterator<Item = (usize, &Worker)> {
        let is_open =
            |worker: &Worker| !history.succeeded.iter().any(|name| **name == *worker.name);
        let workers = self.0.iter().enumerate();
        workers.filter(move |(_, worker)| is_open(worker))
    }

    /// The maximum number of attempts of a task: the smallest number that an open worker allows.
    pub(crate) fn max_attempts(&self, history: &AttemptHistory) -> u32 {
        let open = self.open(history);
        let allowed = open.map(|(_, worker)| worker.options.retry.max_attempts);
        allowed.min().unwrap_or(u32::MAX)
    }
}
