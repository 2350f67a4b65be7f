//! How many tasks of a type are in cold, as of a moment ago.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use delayq_core::operate::TypeStats;
use delayq_core::{Clock, Error, Result, Store, SystemClock, TaskType, millis, seconds};
use tokio::time::timeout;

/// How long a count is used.
const FRESH: Duration = seconds(1);

/// How long a submit waits for a new count of a type that had no task in cold.
const PATIENCE: Duration = millis(500);

/// The tasks of a type in cold.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Count {
    /// Those that cold owns, and those that it remembers: their ids are not free.
    pub(crate) tasks: u64,
    asked_at: Duration,
    /// When this process last put a task into cold.
    added_at: Option<Duration>,
}

/// The limit of scheduled tasks of a type, and when it was asked for.
type Limit = (Option<u64>, Duration);

/// The counts of all types that were submitted to.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    counts: Mutex<HashMap<TaskType, Count>>,
    limits: Mutex<HashMap<TaskType, Limit>>,
}

/// The number of tasks that cold owns by its own counts.
pub(crate) fn owned(stats: &TypeStats) -> u64 {
    stats.scheduled + stats.running + stats.dead
}

impl Counts {
    fn lock(&self) -> MutexGuard<'_, HashMap<TaskType, Count>> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn limits(&self) -> MutexGuard<'_, HashMap<TaskType, Limit>> {
        self.limits.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The limit of scheduled tasks of a type, which is a setting of hot; at most a second old.
    pub(crate) async fn limit(&self, hot: &dyn Store, task_type: &TaskType) -> Result<Option<u64>> {
        let now = SystemClock.elapsed();
        let known = self.limits().get(task_type).copied();
        if let Some((limit, asked_at)) = known
            && now < asked_at + FRESH
        {
            return Ok(limit);
        }
        let limit = hot.stats(task_type).await?.max_pending;
        self.limits().insert(task_type.clone(), (limit, now));
        Ok(limit)
    }

    /// The present count, at most a second old. While cold cannot be asked, a type that had no
    /// task there counts as having none, and so does one that `is_marked` says had none ever.
    pub(crate) async fn of(
        &self,
        cold: &dyn Store,
        task_type: &TaskType,
        is_marked: impl AsyncFnOnce() -> bool,
    ) -> Result<Count> {
        let now = SystemClock.elapsed();
        let known = {
            let mut counts = self.lock();
            let known = counts.get_mut(task_type);
            match known {
                Some(count) if now < count.asked_at + FRESH => return Ok(*count),
                // Others use the old count while this call asks.
                Some(count) => {
                    count.asked_at = now;
                    Some(*count)
                }
                None => None,
            }
        };
        let had_none = known.filter(|count| count.tasks == 0);
        let asked = match had_none {
            Some(_) => {
                let asked = timeout(PATIENCE, cold.stats(task_type)).await;
                let slow = || Err(Error::unavailable(cold.name(), "no answer"));
                asked.unwrap_or_else(|_| slow())
            }
            None => cold.stats(task_type).await,
        };
        match (asked, had_none) {
            (Ok(stats), _) => Ok(self.learn(task_type, &stats, now)),
            (Err(_), Some(count)) => Ok(count),
            (Err(error), None) if known.is_some() || is_marked().await => {
                self.lock().remove(task_type);
                Err(error)
            }
            (Err(_), None) => Ok(self.learn_none(task_type, now)),
        }
    }

    /// Takes over new counts of cold.
    pub(crate) fn learn(&self, task_type: &TaskType, stats: &TypeStats, at: Duration) -> Count {
        let mut counts = self.lock();
        let known = counts.get(task_type);
        let added_at = known.and_then(|count| count.added_at);
        let is_newer = added_at.is_some_and(|added| added >= at);
        let count = Count {
            tasks: (owned(stats) + stats.remembered).max(u64::from(is_newer)),
            asked_at: at,
            added_at,
        };
        counts.insert(task_type.clone(), count);
        count
    }

    /// Notes that a type has no task in cold, although cold cannot be asked.
    fn learn_none(&self, task_type: &TaskType, at: Duration) -> Count {
        let mut counts = self.lock();
        let count = counts.entry(task_type.clone()).or_default();
        count.asked_at = at;
        *count
    }

    /// Notes that this process has put tasks into cold.
    pub(crate) fn add(&self, task_type: &TaskType) {
        let now = SystemClock.elapsed();
        let mut counts = self.lock();
        let count = counts.entry(task_type.clone()).or_default();
        count.tasks = count.tasks.max(1);
        count.added_at = Some(now);
    }

    /// Forgets what is known of a type, as its settings have changed.
    pub(crate) fn forget(&self, task_type: &TaskType) {
        self.lock().remove(task_type);
        self.limits().remove(task_type);
    }
}
