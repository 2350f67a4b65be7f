//! How many tasks fall due, and when.

use std::time::Duration;

use delayq_plugin::store::MAX_HISTOGRAM_STEPS;
use delayq_plugin::{Error, Result, TaskSubmitService, TaskType, Timestamp};
use serde::Serialize;

use crate::selection::selected;

/// Tasks that one call is expected to count, if they are spread evenly. SQLite counts by walking an
/// index, about ten million entries a second.
const TASKS_A_CALL: u64 = 20_000;

/// Most calls of one forecast.
const MOST_CALLS: usize = 1_000;

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
    /// Whether all types were counted. If not, there were more than a thousand calls to make.
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
/// The cost: one call a type for its counts, and then on Redis O(log n) a part, whatever the number
/// of tasks. SQLite walks the index over the tasks within the horizon, about ten million a second,
/// without holding up its writer; a type with more than 20,000 scheduled tasks is counted in
/// several calls, so that one takes about 2 ms. It takes longer only where far more than the mean
/// fall due in one part: such a herd is counted in one call. At most 1,000 calls are made; what is
/// left then is not counted, and `is_complete` says so. Beside tasks that come and go the sum is
/// not exact.
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

    /// Counts a type; `false` when there are no calls left for all of it.
    async fn add(
        &mut self,
        tasks: &TaskSubmitService,
        task_type: &TaskType,
        calls: &mut usize,
    ) -> Result<bool> {
        let name = task_type.as_str();
        let stats = tasks.stats(name).await?;
        let wanted = usize::try_from(stats.scheduled / TASKS_A_CALL + 1).unwrap_or(usize::MAX);
        let wanted = wanted.min(self.buckets.len());
        if *calls < wanted + 1 {
            return Ok(false);
        }
        *calls -= wanted + 1;
        self.overdue += stats.due;
        if stats.scheduled == stats.due {
            return Ok(true);
        }
        let mut within = 0;
        let parts = self.buckets.len().div_ceil(wanted);
        for slice in self.buckets.chunks_mut(parts) {
            let counts = count(tasks, name, slice).await?;
            for (bucket, due) in slice.iter_mut().zip(counts) {
                bucket.due += due;
                within += due;
            }
        }
        self.later += stats
            .scheduled
            .saturating_sub(stats.due)
            .saturating_sub(within);
        Ok(true)
    }
}

/// The counts of neighbouring buckets. Buckets whose lengths differ by a millisecond are counted
/// one by one, as a histogram has equal parts only.
async fn count(
    tasks: &TaskSubmitService,
    task_type: &str,
    buckets: &[ForecastBucket],
) -> Result<Vec<u64>> {
    let (Some(first), Some(last)) = (buckets.first(), buckets.last()) else {
        return Ok(Vec::new());
    };
    let length = |bucket: &ForecastBucket| bucket.to.since(bucket.from);
    if buckets.iter().all(|bucket| length(bucket) == length(first)) {
        return tasks
            .due_histogram(task_type, first.from, last.to, buckets.len())
            .await;
    }
    let mut counts = Vec::with_capacity(buckets.len());
    for bucket in buckets {
        let count = tasks.due_histogram(task_type, bucket.from, bucket.to, 1);
        counts.extend(count.await?);
    }
    Ok(counts)
}
