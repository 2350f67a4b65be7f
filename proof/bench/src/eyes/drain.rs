//! What open pages take from a drain.

use std::fmt;
use std::time::{Duration, Instant};

use delayq_plugin::{DelayQueueJob, TaskState, TaskType};

use super::Extent;
use super::call_times::{Call, CallTimes};
use super::fill::{DEAD, DRAINED, FAR};
use super::web::Server;
use crate::Failure;
use crate::backlog::all_settled;
use crate::bare_redis::rate;
use crate::figure::{met, short, spread};
use crate::load::{BULK, Message, parts};
use crate::process;
use crate::stage::{Place, Site, Stage, end};
use crate::throughput::all_accepted;
use crate::worker::{Counter, Typed};

/// The most that open pages may take from it.
const GOAL: f64 = 0.97;
/// Pages have been open for so long when it begins: their views have been read once or twice.
const SETTLED: Duration = Duration::from_secs(5);

/// Rounds with pages open and without, in pairs.
#[derive(Debug)]
pub(crate) struct Cost {
    closed: Vec<Sample>,
    open: Vec<Sample>,
    /// The longest call of a page.
    call: Option<Call>,
}

/// One of the figures of a round.
type Value = fn(&Sample) -> f64;

/// One round.
#[derive(Clone, Copy, Debug)]
struct Sample {
    /// Tasks a second.
    rate: f64,
    /// Processor time a task, in microseconds: of this process, with pages and handler, and of the
    /// server.
    cpu_us: f64,
}

/// Drains with pages open and without; which comes first changes from pair to pair.
pub(crate) async fn measure(
    stage: &Stage,
    site: &Site,
    extent: &Extent,
    times: &CallTimes,
) -> Result<Cost, Failure> {
    let mut cost = Cost {
        closed: Vec::new(),
        open: Vec::new(),
        call: None,
    };
    // One more, which warms up.
    for nth in 0..=extent.rounds {
        for is_open in [nth % 2 == 0, nth % 2 == 1] {
            let (sample, call) = round(stage, site, extent.drained, is_open, times).await?;
            let (rate, cpu_us) = (short(sample.rate), sample.cpu_us);
            println!("  pages open: {is_open}, {rate} tasks/s, {cpu_us:.1} µs a task");
            if nth == 0 {
                continue;
            }
            let samples = if is_open {
                &mut cost.open
            } else {
                &mut cost.closed
            };
            samples.push(sample);
            let call = call.filter(|_| is_open);
            let longest = cost.call.take().into_iter().chain(call);
            cost.call = longest.max_by(|one, other| one.ms.total_cmp(&other.ms));
        }
    }
    Ok(cost)
}

async fn round(
    stage: &Stage,
    site: &Site,
    count: usize,
    is_open: bool,
    times: &CallTimes,
) -> Result<(Sample, Option<Call>), Failure> {
    let worker = Counter::up_to(count);
    let types = [DRAINED.to_owned()];
    let site = site.clone();
    let plugin = site
        .plugin_of_types(&types, Typed(worker.clone()), |settings| settings)
        .await?;
    let tasks = plugin.submit_service();
    tasks
        .store()
        .purge(&TaskType::new(DRAINED)?, TaskState::Done)
        .await?;
    tasks.pause(DRAINED, None).await?;
    for bulk in parts(count, BULK) {
        let jobs = bulk.map(|number| DelayQueueJob::new(DRAINED, &Message::new(number)));
        all_accepted(tasks.send_all(jobs.collect::<Result<_, _>>()?).await)?;
    }
    let server = Server::start(tasks.clone().with_metrics()).await?;
    let mut pages = Vec::new();
    let paths = [
        "/".to_owned(),
        format!("/type?name={FAR}"),
        format!("/dead?type={DEAD}"),
    ];
    for path in paths.iter().filter(|_| is_open) {
        pages.push(server.open(path).await?);
    }
    tokio::time::sleep(SETTLED).await;
    times.take_slowest();
    let (before, started) = (cpu_time(stage).await?, Instant::now());
    tasks.resume(DRAINED).await?;
    worker.wait().await?;
    all_settled(&tasks, DRAINED).await?;
    let rate = rate(count, started);
    let cpu = cpu_time(stage).await?.saturating_sub(before);
    let call = times.take_slowest();
    drop((pages, server));
    end(plugin).await;
    #[allow(clippy::cast_precision_loss, reason = "a count of tasks is small")]
    let cpu_us = cpu.as_secs_f64() * 1e6 / count as f64;
    Ok((Sample { rate, cpu_us }, call))
}

/// Of this process, and of the server.
async fn cpu_time(stage: &Stage) -> Result<Duration, Failure> {
    let own = process::cpu_time(std::process::id())?;
    let server = match stage.place {
        Place::Redis => stage.bare_redis().await?.cpu_time().await?,
        _ => Duration::ZERO,
    };
    Ok(own + server)
}

impl Cost {
    /// Of each round without pages to the one before: what the machine does by itself.
    fn noise(&self, of: Value) -> [f64; 3] {
        let pairs = self.closed.iter().zip(self.closed.iter().skip(1));
        let ratios: Vec<_> = pairs
            .map(|(before, after)| of(after) / of(before))
            .collect();
        spread(&ratios)
    }

    /// Of one with pages open to the one beside it without.
    fn ratios(&self, of: Value) -> [f64; 3] {
        let pairs = self.open.iter().zip(&self.closed);
        let ratios: Vec<_> = pairs.map(|(open, closed)| of(open) / of(closed)).collect();
        spread(&ratios)
    }
}

impl fmt::Display for Cost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let of = |samples: &[Sample], of: fn(&Sample) -> f64| {
            let values: Vec<_> = samples.iter().map(of).collect();
            let [min, median, max] = spread(&values).map(short);
            format!("{min} / {median} / {max}")
        };
        writeln!(
            f,
            "| drain, min / median / max | pages closed | 3 open | ratio | closed to closed | goal |"
        )?;
        writeln!(f, "|---|---:|---:|---:|---:|---|")?;
        let rows: [(&str, Value); 2] = [
            ("tasks/s", |sample| sample.rate),
            ("processor time a task, µs", |sample| sample.cpu_us),
        ];
        for (nth, (name, value)) in rows.into_iter().enumerate() {
            let [min, median, max] = self.ratios(value);
            let [least, middle, most] = self.noise(value);
            let (closed, open) = (of(&self.closed, value), of(&self.open, value));
            let goal = (nth == 0).then(|| format!(">= {GOAL}: {}", met(Some(median >= GOAL))));
            let goal = goal.unwrap_or_default();
            writeln!(
                f,
                "| {name} | {closed} | {open} | {min:.3} / {median:.3} / {max:.3} | \
                 {least:.3} / {middle:.3} / {most:.3} | {goal} |"
            )?;
        }
        match &self.call {
            Some(call) => write!(
                f,
                "\nThe longest call while pages were open and tasks drained, seen from the caller: \
                 {:.1} ms, {}.",
                call.ms, call.name
            ),
            None => Ok(()),
        }
    }
}
