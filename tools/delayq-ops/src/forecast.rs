//! How many tasks fall due, and when.

use std::time::Duration;

use delayq_plugin::store::MAX_HISTOGRAM_STEPS;
use delayq_plugin::{
    Cursor, Error, Result, TaskId, TaskState, TaskSubmitService, TaskType, Timestamp, TypeStats,
};
use serde::Serialize;

use crate::selection::selected;

/// Tasks that one call is meant to count. SQLite counts by walking an index, one to three million
/// entries a second: measured with a million tasks by `cargo xtask bench --eyes`.
const TASKS_A_CALL: u64 = 4_000;

/// The time that the first call looks at, of a type with more tasks than one call counts, and the
/// first one behind a time without any: many may be due together there.
const FIRST_SLICE: Duration = Duration::from_secs(1);

/// An id behind all others that people use.
const LAST_ID: &str = "~";

/// Most calls of one forecast.
const MOST_CALLS: usize = 2_500;

/// How many scheduled tasks fall due in each part of a time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Forecast {
    /// Where it begins: the store's now, or this host's where no type has tasks.
    pub from: Timestamp,
    /// Where it ends.
    pub to: Timestamp,
    /// The parts, of the same length to the millisecond, in order.
    pub buckets: Vec<ForecastBucket>,
    /// Tasks that were due before it begins, and wait.
    pub overdue: u64,
    /// Tasks that are due after it ends.
    pub later: u64,
    /// The types that were counted.
    pub types: Vec<TaskType>,
    /// Whether everything was counted. If not, 2,500 calls were not enough: the type after the
    /// last one in `types` is counted in part, and those behind it are not.
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
    /// How many tasks fall due in it.
    pub due: u64,
}

/// How many tasks of a type, or of the listed types that a pattern such as `mail.*` matches, fall
/// due in each of `buckets` parts (1 to 1,000) of the time from now to `horizon`. Recurring tasks
/// count with the one occurrence that waits, retries with their next attempt.
///
/// The cost: a call a type for its counts, one more where tasks are due, and one for all parts
/// together where it has up to 4,000 tasks ahead. On Redis that is O(log n) a part. SQLite walks
/// the index over the tasks within the horizon, one to three million a second, beside its writer.
/// Of a larger type calls look at slices that are as wide as about 4,000 tasks need: more are
/// counted where many more are due together than shortly before. At most 2,500 calls are made,
/// for about ten million tasks; `is_complete` says whether that was enough. Beside tasks that come
/// and go the sum is not exact.
///
/// # Errors
/// `InvalidInput` for no horizon or a bad number of buckets, `Unsupported` by a store that does not
/// count, and those of the store.
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
        // A horizon of fewer milliseconds than parts has empty ones.
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

    /// Counts a type; `false` when the calls ran out before its end.
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

    /// How many tasks were due before the forecast begins: those that have fallen due since are a
    /// part of it.
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

    /// What the next call counts: whole buckets of one length from the `nth` on, or a part of it.
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

/// When the first task is due that is not due before `at`.
async fn next_due(
    tasks: &TaskSubmitService,
    task_type: &str,
    at: Timestamp,
) -> Result<Option<Timestamp>> {
    let before = Cursor::new(at.minus(Duration::from_millis(1)), TaskId::new(LAST_ID)?);
    let page = tasks.list(task_type, TaskState::Scheduled, Some(&before), 1);
    Ok(page.await?.tasks.first().map(|task| task.at))
}

/// What one call counts.
struct Slice {
    to: Timestamp,
    steps: usize,
}

/// A width in which [`TASKS_A_CALL`] fall due, if they do so as in the slice before.
fn next_width(width: Duration, counted: u64) -> Duration {
    let widest = width.saturating_mul(8);
    let ms = width.as_millis() * u128::from(TASKS_A_CALL) / u128::from(counted.max(1));
    let fitting = Duration::from_millis(u64::try_from(ms).unwrap_or(u64::MAX));
    fitting.clamp(Duration::from_millis(1), widest)
}
