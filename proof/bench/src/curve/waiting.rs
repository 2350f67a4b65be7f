//! What single calls take while more and more tasks wait.

use std::sync::Arc;
use std::time::{Duration, Instant};

use delayq_core::store::{AttemptEnd, Bucket, ClaimRequest, Settlement, StoreOptions};
use delayq_plugin::{
    CancelOutcome, Clock, DelayQueueJob, Error, Store, SystemClock, TaskSubmitService, TaskType,
    millis, open_store, seconds,
};
use hdrhistogram::Histogram;

use crate::Failure;
use crate::curve::Extent;
use crate::curve::ground::{Ground, Setup};
use crate::curve::pace;
use crate::curve::sheet::{Line, Panel, Scale, Sheet, count, verdict};
use crate::load::{BULK, Message, TASK_TYPE};
use crate::redis_server::Persistence;
use crate::stage::Place;

/// As few as a small shop has; every other place has ten times as many as the one before.
const FEWEST: usize = 1_000;
/// The most that a call may take against the same call with the fewest tasks waiting.
const GOAL: f64 = 2.0;
/// Waiting tasks are due so many ms from now.
const DUE_MS: std::ops::Range<u64> = 3_600_000..36_000_000;
/// Longer calls count as this long: a minute, far above the time limit of a call.
const LONGEST_NS: u64 = 60_000_000_000;
/// A busy machine shall not end a run in which millions of tasks have been sent already.
const CALL_TIMEOUT: Duration = seconds(60);
/// A share of the calls comes first and is not counted.
const WARM_UP: usize = 10;
/// A task that is due in this very millisecond may be claimed with the next one only.
const CLAIM_TRIES: usize = 10_000;

const HEAD: [&str; 12] = [
    "store",
    "waiting",
    "claim p50 µs",
    "p99",
    "submit p50",
    "p99",
    "cancel p50",
    "p99",
    "find p50",
    "p99",
    "p50 against the fewest, at most",
    "<= 2",
];

/// Measures Redis and SQLite.
pub(crate) async fn measure(extent: &Extent) -> Result<Sheet, Failure> {
    let (mut rows, mut panels) = (Vec::new(), Vec::new());
    for (place, most) in extent.waiting {
        let mut levels = fill(place, most).await?;
        for round in 0..extent.calls + extent.calls / WARM_UP {
            if round == extent.calls / WARM_UP {
                for level in &mut levels {
                    level.times.clear();
                }
            }
            // All places in turn, so that they see the same machine.
            for level in &mut levels {
                level.round().await?;
            }
        }
        let fewest = levels
            .first()
            .map(|level| level.times.p50())
            .unwrap_or_default();
        rows.extend(levels.iter().map(|level| row(place, level, fewest)));
        panels.push(panel(place, &levels));
        for level in levels {
            level.store.close().await;
        }
    }
    Ok(Sheet {
        head: &HEAD,
        rows,
        panels,
    })
}

/// A store in which so many tasks of one type wait.
struct Level {
    waiting: usize,
    task_type: String,
    store: Arc<dyn Store>,
    tasks: TaskSubmitService,
    /// The numbers of the tasks that wait.
    numbers: Vec<usize>,
    next: usize,
    times: Times,
    /// Ends after the store has been let go of.
    ground: Arc<Ground>,
}

/// In nanoseconds.
struct Times {
    claim: Histogram<u64>,
    submit: Histogram<u64>,
    cancel: Histogram<u64>,
    find: Histogram<u64>,
}

/// 1 k, 10 k and so on, up to `most`.
fn sizes(most: usize) -> impl Iterator<Item = usize> {
    std::iter::successors(Some(FEWEST), |size| Some(size * 10))
        .take_while(move |size| *size <= most)
}

/// One Redis with a type for each size, one file of SQLite for each. Neither waits for a disk: what
/// is measured is the cost of the structures.
async fn fill(place: Place, most: usize) -> Result<Vec<Level>, Failure> {
    let mut levels: Vec<Level> = Vec::new();
    for waiting in sizes(most) {
        let ground = match (place, levels.first()) {
            (Place::Redis, Some(level)) => Arc::clone(&level.ground),
            (Place::Redis, None) => Arc::new(Setup::Redis(Persistence::None).open()?),
            _ => Arc::new(Setup::Sqlite { relaxed: true }.open()?),
        };
        let started = Instant::now();
        levels.push(Level::fill(ground, waiting).await?);
        println!(
            "  {}: {} wait after {:?}",
            place.name(),
            count(waiting),
            started.elapsed()
        );
    }
    Ok(levels)
}

impl Level {
    async fn fill(ground: Arc<Ground>, waiting: usize) -> Result<Self, Failure> {
        let options = StoreOptions {
            call_timeout: CALL_TIMEOUT,
            ..StoreOptions::default()
        };
        let store = open_store(&ground.url, options).await?;
        let tasks = TaskSubmitService::new(Arc::clone(&store));
        let task_type = format!("{TASK_TYPE}.{waiting}");
        let level = Self {
            waiting,
            task_type,
            store,
            tasks,
            numbers: (0..waiting).collect(),
            next: waiting,
            times: Times::new()?,
            ground,
        };
        pace::send(&level.tasks, waiting, BULK, |n| level.later(n)).await?;
        let there = level.tasks.stats(&level.task_type).await?.scheduled;
        if there != u64::try_from(waiting)? {
            return Err(format!("{there} tasks wait, not {waiting}").into());
        }
        Ok(level)
    }

    fn later(&self, number: usize) -> Result<DelayQueueJob, Error> {
        let job = DelayQueueJob::new(self.task_type.as_str(), &Message::new(number))?;
        let due = millis(fastrand::u64(DUE_MS));
        Ok(job.id(number.to_string()).after(due))
    }

    /// One call of each kind. Then as many tasks wait as before.
    async fn round(&mut self) -> Result<(), Failure> {
        let number = self.next;
        self.next += 1;
        let job = self.later(number)?;
        timed(&mut self.times.submit, self.tasks.send(job)).await?;
        self.numbers.push(number);

        let id = fastrand::choice(&self.numbers)
            .ok_or("tasks wait")?
            .to_string();
        let find = self.tasks.find(&self.task_type, &id);
        if timed(&mut self.times.find, find).await?.is_none() {
            return Err(format!("task {id} is not found").into());
        }

        let id = self
            .numbers
            .swap_remove(fastrand::usize(..self.numbers.len()));
        let id = id.to_string();
        let cancel = self.tasks.cancel(&self.task_type, &id);
        let outcome = timed(&mut self.times.cancel, cancel).await?;
        if outcome != CancelOutcome::Cancelled {
            return Err(format!("a cancel of the waiting task {id}: {outcome:?}").into());
        }
        self.claim().await
    }

    /// Sends a task that is due at once, claims and settles it. The claim is timed.
    async fn claim(&mut self) -> Result<(), Failure> {
        let bucket = Bucket::whole(TaskType::new(&self.task_type)?);
        let job = DelayQueueJob::new(self.task_type.as_str(), &Message::new(0))?;
        self.tasks.send(job).await?;
        for _ in 0..CLAIM_TRIES {
            let request = ClaimRequest::new(1, seconds(30), SystemClock.now());
            let started = Instant::now();
            let claimed = self.store.claim(&bucket, &request).await?;
            let took = started.elapsed();
            let Some(task) = claimed.tasks.into_iter().next() else {
                continue;
            };
            record(&mut self.times.claim, took);
            let settlement = Settlement::new(task.lock, AttemptEnd::Done);
            self.store.settle(&bucket, vec![settlement]).await?;
            return Ok(());
        }
        Err(format!("a due task is not claimed in {CLAIM_TRIES} tries").into())
    }
}

impl Times {
    fn new() -> Result<Self, Failure> {
        // One with bounds: a histogram that grows by itself does not when it saturates.
        let empty = Histogram::new_with_max(LONGEST_NS, 3)?;
        Ok(Self {
            claim: empty.clone(),
            submit: empty.clone(),
            cancel: empty.clone(),
            find: empty,
        })
    }

    fn clear(&mut self) {
        for times in [
            &mut self.claim,
            &mut self.submit,
            &mut self.cancel,
            &mut self.find,
        ] {
            times.reset();
        }
    }

    fn all(&self) -> [(&'static str, &Histogram<u64>); 4] {
        [
            ("claim", &self.claim),
            ("submit", &self.submit),
            ("cancel", &self.cancel),
            ("find", &self.find),
        ]
    }

    fn p50(&self) -> [f64; 4] {
        self.all().map(|(_, times)| micros(times, 50.0))
    }
}

async fn timed<T>(
    times: &mut Histogram<u64>,
    call: impl Future<Output = delayq_plugin::Result<T>>,
) -> delayq_plugin::Result<T> {
    let started = Instant::now();
    let result = call.await;
    record(times, started.elapsed());
    result
}

fn record(times: &mut Histogram<u64>, took: Duration) {
    times.saturating_record(u64::try_from(took.as_nanos()).unwrap_or(u64::MAX));
}

#[allow(clippy::cast_precision_loss, reason = "no call takes 2^52 ns")]
fn micros(times: &Histogram<u64>, percentile: f64) -> f64 {
    times.value_at_percentile(percentile) as f64 / 1_000.0
}

fn row(place: Place, level: &Level, fewest: [f64; 4]) -> Vec<String> {
    let mut cells = vec![place.name().to_owned(), count(level.waiting)];
    for (_, times) in level.times.all() {
        cells.extend([50.0, 99.0].map(|p| format!("{:.0}", micros(times, p))));
    }
    let growth = growth(level.times.p50(), fewest);
    cells.extend([format!("{growth:.2}"), verdict(growth <= GOAL)]);
    cells
}

/// How much longer the call takes that has grown most.
fn growth(now: [f64; 4], fewest: [f64; 4]) -> f64 {
    let ratios = now
        .into_iter()
        .zip(fewest)
        .map(|(now, fewest)| now / fewest);
    ratios.fold(0.0, f64::max)
}

fn panel(place: Place, levels: &[Level]) -> Panel {
    let names = ["claim", "submit", "cancel", "find"]
        .into_iter()
        .enumerate();
    let values = |at: usize| {
        levels
            .iter()
            .filter_map(move |level| level.times.p50().get(at).copied())
    };
    Panel {
        title: match place {
            Place::Redis => "One call on Redis, median",
            _ => "One call on SQLite, median",
        },
        unit: "µs",
        along: "tasks waiting",
        places: levels.iter().map(|level| count(level.waiting)).collect(),
        scale: Scale::Linear,
        lines: names
            .map(|(at, name)| Line::new(name, values(at)))
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sizes_go_up_by_ten_to_the_most() {
        assert_eq!(sizes(100_000).collect::<Vec<_>>(), [1_000, 10_000, 100_000]);
    }

    #[test]
    fn the_call_that_grew_most_counts() {
        let growth = growth([80.0, 90.0, 100.0, 150.0], [80.0, 100.0, 100.0, 60.0]);
        assert!((growth - 2.5).abs() < 1e-9, "{growth}");
    }

    #[test]
    fn a_time_is_recorded_as_long_as_it_is() {
        let mut times = Times::new().unwrap();
        record(&mut times.find, Duration::from_micros(80));
        record(&mut times.find, Duration::from_millis(5));
        assert!((micros(&times.find, 50.0) - 80.0).abs() < 0.1);
        assert!((micros(&times.find, 100.0) - 5_000.0).abs() < 5.0);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_round_leaves_as_many_waiting_and_times_each_call_once() {
        let ground = Arc::new(Setup::Sqlite { relaxed: true }.open().unwrap());
        let mut level = Level::fill(ground, 30).await.unwrap();
        for _ in 0..5 {
            level.round().await.unwrap();
        }
        let there = level.tasks.stats(&level.task_type).await.unwrap();
        assert_eq!((there.scheduled, there.running), (30, 0));
        assert_eq!(level.numbers.len(), 30);
        for (name, times) in level.times.all() {
            assert_eq!(times.len(), 5, "{name}");
        }
        level.store.close().await;
    }
}
