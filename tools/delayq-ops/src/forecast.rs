//! Forecast: the number of tasks that fall due, by time.

use std::time::Duration;

use delayq_plugin::store::MAX_HISTOGRAM_STEPS;
use delayq_plugin::{
    Cursor, Error, Result, TaskId, TaskState, TaskSubmitService, TaskType, Timestamp, TypeStats,
};
use serde::Serialize;

use crate::selection::selected;

/// Number of tasks that one call should count. SQLite counts by walking an index, one to three
/// million entries a second: measured with a million tasks by `cargo xtask bench --eyes`.
const TASKS_A_CALL: u64 = 4_000;

/// The length of the first slice of a type with more tasks than one call counts, and of the first
/// slice after a time without tasks: many tasks may be due together there.
const FIRST_SLICE: Duration = Duration::from_secs(1);

/// An id that sorts after all ids used in practice.
const LAST_ID: &str = "~";

/// Maximum number of calls for one forecast.
const MOST_CALLS: usize = 2_500;

/// The number of scheduled tasks that fall due in each part of a time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Forecast {
    /// Its start: the store's present time, or this host's if no type has tasks.
    pub from: Timestamp,
    /// Its end.
    pub to: Timestamp,
    /// The parts, of the same length to the millisecond, in order.
    pub buckets: Vec<ForecastBucket>,
    /// Tasks that were due before its start and are waiting.
    pub overdue: u64,
    /// Tasks that are due after it ends.
    pub later: u64,
    /// The types counted.
    pub types: Vec<TaskType>,
    /// True if everything was counted. If not, 2,500 calls were not enough: the type after the last
    /// one in `types` is only partly counted, and those after it are not.
    pub is_complete: bool,
}

/// One part of a forecast.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ForecastBucket {
    /// Its first millisecond.
    pub from: Timestamp,
    /// The first millisecond after it.
    pub to: Timestamp,
    /// The number of tasks that fall due in it.
    pub due: u64,
}

/// The number of tasks of a type, or of the listed types that a pattern such as `mail.*` matches,
/// that fall due in each of `buckets` parts (1 to 1,000) of the time from now to `horizon`. A
/// recurring task counts with the one waiting occurrence, a retry with its next attempt.
///
/// The cost: one call per type for its counts, one more if tasks are due, and one for all parts
/// together if it has up to 4,000 tasks ahead. On Redis that is O(log n) per part. SQLite walks the
/// index over the tasks within the horizon, one to three million a second, in parallel to its
/// writer. For a larger type, each call counts a slice wide enough for about 4,000 tasks; it counts
/// more if suddenly many more are due together. At most 2,500 calls are made, for about ten million
/// tasks; `is_complete` tells if that was enough. While tasks come and go, the sum is not exact.
///
/// # Errors
/// `InvalidInput` for an empty horizon or a bad number of buckets, `Unsupported` from a store that
/// does not count, and the store's other errors.
pub async fn forecast(
    tasks: &TaskSubmitService,
    types: &str,
    horizon: Duration,
    buckets: usize,
) -> Result<Forecast> {
    if horizon < Duration::from_millis(1) || !(1..=MAX_HISTOGRAM_STEPS).contains(&buckets) {
        let reason = format!(
            "cannot split {horizon:?} into {buckets} parts: give at least 1 ms and 1 to \
             {MAX_HISTOGRAM_STEPS} parts"
        );
        return Err(Error::InvalidInput {
            what: "argument",
            reason,
        });
    }
    let types = selected(tasks, types).await?;
    let mut forecast = Forecast::empty(tasks, &types, horizon, buckets).await?;
    let mut calls = MOST_CALLS;
    for task_type in types {
        let is_counted = forecast.add(tasks, &task_type, &mut calls).await?;
        if !is_counted {
            forecast.is_complete = false;
            break;
        }
        forecast.types.push(task_type);
    }
    Ok(forecast)
}

impl Forecast {
    async fn empty(
        tasks: &TaskSubmitService,
        types: &[TaskType],
        horizon: Duration,
        buckets: usize,
    ) -> Result<Self> {
        let from = match types.first() {
            Some(task_type) => tasks.stats(task_type.as_str()).await?.now,
            None => tasks.clock().now(),
        };
        let to = from.plus(horizon);
        let span = to.since(from).as_millis();
        let at = |nth: usize| {
            let offset = span * nth as u128 / buckets as u128;
            from.plus(Duration::from_millis(
                u64::try_from(offset).unwrap_or(u64::MAX),
            ))
        };
        let bucket = |nth| ForecastBucket {
            from: at(nth),
            to: at(nth + 1),
            due: 0,
        };
        let mut parts: Vec<_> = (0..buckets).map(bucket).collect();
        // A horizon with fewer milliseconds than parts has empty parts.
        parts.retain(|bucket| bucket.from < bucket.to);
        Ok(Self {
            from,
            to,
            buckets: parts,
            overdue: 0,
            later: 0,
            types: Vec::new(),
            is_complete: true,
        })
    }

    /// Counts a type. Returns false if the calls ran out before its end.
    async fn add(
        &mut self,
        tasks: &TaskSubmitService,
        task_type: &TaskType,
        calls: &mut usize,
    ) -> Result<bool> {
        let stats = tasks.stats(task_type.as_str()).await?;
        let overdue = self.overdue(tasks, task_type, &stats).await?;
        let ahead = stats.scheduled.saturating_sub(overdue);
        self.overdue += overdue;
        let (mut nth, mut at, mut within) = (0, self.from, 0);
        let mut width = match ahead {
            0..=TASKS_A_CALL => self.to.since(self.from),
            _ => FIRST_SLICE,
        };
        while within < ahead && nth < self.buckets.len() {
            if *calls == 0 {
                return Ok(false);
            }
            *calls -= 1;
            let slice = self.slice(nth, at, width);
            let name = task_type.as_str();
            let counts = tasks.due_histogram(name, at, slice.to, slice.steps);
            let mut counted = 0;
            for (bucket, due) in self.buckets.iter_mut().skip(nth).zip(counts.await?) {
                bucket.due += due;
                counted += due;
            }
            (at, within) = (slice.to, within + counted);
            width = next_width(width, counted);
            if counted == 0 && within < ahead && at < self.to {
                *calls = calls.saturating_sub(1);
                let Some(next) = next_due(tasks, name, at).await? else {
                    break;
                };
                (at, width) = (at.max(next), FIRST_SLICE);
            }
            nth += self
                .buckets
                .iter()
                .skip(nth)
                .take_while(|bucket| bucket.to <= at)
                .count();
        }
        self.later += ahead.saturating_sub(within);
        Ok(true)
    }

    /// The number of tasks that were due before the start; tasks that fell due since are part of
    /// the forecast.
    async fn overdue(
        &self,
        tasks: &TaskSubmitService,
        task_type: &TaskType,
        stats: &TypeStats,
    ) -> Result<u64> {
        if stats.due == 0 {
            return Ok(0);
        }
        let until = stats.now.max(self.from).plus(Duration::from_millis(1));
        let since = tasks.due_histogram(task_type.as_str(), self.from, until, 1);
        let since: u64 = since.await?.into_iter().sum();
        Ok(stats.due.saturating_sub(since))
    }

    /// The part counted by the next call: whole buckets of one length from the `nth` on, or a part
    /// of one.
    fn slice(&self, nth: usize, at: Timestamp, width: Duration) -> Slice {
        let end = at.plus(width);
        let mut slice = Slice { to: end, steps: 1 };
        let mut rest = self.buckets.iter().skip(nth);
        let Some(first) = rest.next() else {
            return slice;
        };
        slice.to = end.min(first.to);
        if at > first.from || end < first.to {
            return slice;
        }
        let length = first.to.since(first.from);
        for bucket in rest.take_while(|bucket| bucket.to <= end) {
            if bucket.to.since(bucket.from) != length {
                break;
            }
            slice.to = bucket.to;
            slice.steps += 1;
        }
        slice
    }
}

/// The due time of the first task that is due at `at` or later.
async fn next_due(
    tasks: &TaskSubmitService,
    task_type: &str,
    at: Timestamp,
) -> Result<Option<Timestamp>> {
    let before = Cursor::new(at.minus(Duration::from_millis(1)), TaskId::new(LAST_ID)?);
    let page = tasks.list(task_type, TaskState::Scheduled, Some(&before), 1);
    Ok(page.await?.tasks.first().map(|task| task.at))
}

/// The part counted by one call.
struct Slice {
    to: Timestamp,
    steps: usize,
}

/// A width in which [`TASKS_A_CALL`] tasks fall due, at the rate of the previous slice.
fn next_width(width: Duration, counted: u64) -> Duration {
    let widest = width.saturating_mul(8);
    let ms = width.as_millis() * u128::from(TASKS_A_CALL) / u128::from(counted.max(1));
    let fitting = Duration::from_millis(u64::try_from(ms).unwrap_or(u64::MAX));
    fitting.clamp(Duration::from_millis(1), widest)
}
