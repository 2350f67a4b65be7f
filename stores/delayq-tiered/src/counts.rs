//! How many tasks of a type are in cold, as of a moment ago.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use delayq_core::operate::TypeStats;
use delayq_core::{Clock, Error, Result, Store, SystemClock, TaskType, millis, seconds};
use tokio::time::timeout;

/// How long a count is used.
const FRESH: Duration = seconds(1);

/// How long a submit waits for a new count of a type that had no task in cold.
const PATIENCE: Duration = millis(500);

/// How long the error of a question is the answer to others.
const FAILED: Duration = millis(200);

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
    known: Mutex<HashMap<TaskType, Count>>,
    limits: Mutex<HashMap<TaskType, Limit>>,
    /// The last errors, and when they came.
    failed: Mutex<HashMap<TaskType, (Error, Duration)>>,
    turns: Mutex<HashMap<TaskType, Arc<Turn>>>,
}

/// The right to ask for a count that is not known.
type Turn = tokio::sync::Mutex<()>;

/// The number of tasks that cold owns by its own counts.
pub(crate) fn owned(stats: &TypeStats) -> u64 {
    stats.scheduled + stats.running + stats.dead
}

impl Counts {
    fn lock(&self) -> MutexGuard<'_, HashMap<TaskType, Count>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn failed(&self) -> MutexGuard<'_, HashMap<TaskType, (Error, Duration)>> {
        self.failed.lock().unwrap_or_else(PoisonError::into_inner)
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

    /// The present count, at most a second old. While cold cannot be asked, a type that `is_marked`
    /// says has no task there counts as having none.
    pub(crate) async fn of(
        &self,
        cold: &dyn Store,
        task_type: &TaskType,
        is_marked: impl AsyncFnOnce() -> bool,
    ) -> Result<Count> {
        if let Some(answer) = self.answered(task_type) {
            return answer;
        }
        if let Some(known) = self.begin(task_type) {
            return self.ask(cold, task_type, Some(known), is_marked).await;
        }
        // One call asks, and the others wait for its answer.
        let turn = self.turn(task_type);
        let _turn = turn.lock().await;
        if let Some(answer) = self.answered(task_type) {
            return answer;
        }
        self.ask(cold, task_type, None, is_marked).await
    }

    /// The answer that another question had a moment ago.
    fn answered(&self, task_type: &TaskType) -> Option<Result<Count>> {
        let now = SystemClock.elapsed();
        if let Some((error, failed_at)) = self.failed().get(task_type)
            && now < *failed_at + FAILED
        {
            return Some(Err(error.clone()));
        }
        let known = self.lock().get(task_type).copied();
        known.filter(|count| now < count.asked_at + FRESH).map(Ok)
    }

    /// Begins a question about a type whose count is old. Others use that meanwhile.
    fn begin(&self, task_type: &TaskType) -> Option<Count> {
        let mut counts = self.lock();
        let count = counts.get_mut(task_type)?;
        count.asked_at = SystemClock.elapsed();
        Some(*count)
    }

    fn turn(&self, task_type: &TaskType) -> Arc<Turn> {
        let mut turns = self.turns.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(turns.entry(task_type.clone()).or_default())
    }

    async fn ask(
        &self,
        cold: &dyn Store,
        task_type: &TaskType,
        known: Option<Count>,
        is_marked: impl AsyncFnOnce() -> bool,
    ) -> Result<Count> {
        let now = SystemClock.elapsed();
        let asked = match known.filter(|count| count.tasks == 0) {
            Some(_) => {
                let asked = timeout(PATIENCE, cold.stats(task_type)).await;
                let slow = || Err(Error::unavailable(cold.name(), "no answer"));
                asked.unwrap_or_else(|_| slow())
            }
            None => cold.stats(task_type).await,
        };
        match asked {
            Ok(stats) => Ok(self.learn(task_type, &stats, now)),
            Err(error) if known.is_some_and(|count| count.tasks > 0) || is_marked().await => {
                self.lock().remove(task_type);
                let failed = (error.clone(), SystemClock.elapsed());
                self.failed().insert(task_type.clone(), failed);
                Err(error)
            }
            Err(_) => Ok(self.learn_none(task_type)),
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
    fn learn_none(&self, task_type: &TaskType) -> Count {
        let mut counts = self.lock();
        let count = counts.entry(task_type.clone()).or_default();
        count.asked_at = SystemClock.elapsed();
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
