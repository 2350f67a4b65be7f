//! Very many tasks that are due in the same millisecond: what they take, and whom they delay; and a
//! server that is killed with as many in it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use delayq_core::store::StoreOptions;
use delayq_plugin::{
    Clock, DelayQueueJob, DelayQueuePlugin, SystemClock, TaskContext, TaskResult,
    TaskSubmitService, TaskWorker, WorkerOptions, hours, millis, open_store, seconds,
};
use serde::{Deserialize, Serialize};
use tokio::time::interval;

use crate::Failure;
use crate::bare_redis::rate;
use crate::child::{Child, Role};
use crate::lateness::{Lateness, Load};
use crate::load::{BULK, Message, parts};
use crate::redis_server::{Persistence, RedisServer};
use crate::stage::{Place, end};
use crate::worker::{Counter, Stopwatch};

const HERD: &str = "herd";
const OTHER: &str = "other";
const PROBE: &str = "probe";
/// Tasks of another type a second.
const OTHERS: u32 = 50;
/// A call of the server is slow from here on.
const SLOW: [&str; 4] = [
    "--slowlog-log-slower-than",
    "5000",
    "--slowlog-max-len",
    "100000",
];
/// The probe is due while the server is down.
const PROBE_AFTER: Duration = millis(100);

/// What a herd took.
#[derive(Debug)]
pub(crate) struct Herd {
    /// Tasks a second, from the release of the herd until each has run.
    pub(crate) rate: f64,
    /// Most memory of the process that ran it, in MiB.
    pub(crate) memory: f64,
    /// Script calls of more than 5 ms on the wall.
    pub(crate) slow_calls: f64,
    /// How late tasks of another type were meanwhile.
    pub(crate) others_p99: f64,
    /// Seconds from the start of a killed server to the first task, with a herd in it that is not
    /// due.
    pub(crate) restart: f64,
}

/// What the process that runs a herd reports at its end.
#[derive(Debug, Serialize, Deserialize)]
struct Report {
    repeats: usize,
    others: u64,
    others_early: u64,
    others_p99_ms: f64,
    others_max_ms: f64,
    peak_kib: f64,
}

/// Marks which tasks have run.
#[derive(Clone, Debug)]
struct Marker {
    marks: Arc<Vec<AtomicU8>>,
    counter: Counter,
}

#[async_trait]
impl TaskWorker for Marker {
    async fn invoke(&self, _message: &str, cx: &TaskContext) -> TaskResult {
        let number: usize = cx.id().as_str().parse().unwrap_or(usize::MAX);
        let mark = self.marks.get(number);
        if mark.is_some_and(|mark| mark.fetch_add(1, Ordering::Relaxed) == 0) {
            self.counter.count();
        }
        Ok(())
    }
}

/// A process of its own with workers, so that its memory is its own: runs a herd of `count` and
/// reports.
pub(crate) async fn instance(url: &str, count: usize) -> Result<(), Failure> {
    let herd = Marker {
        marks: Arc::new(
            std::iter::repeat_with(AtomicU8::default)
                .take(count)
                .collect(),
        ),
        counter: Counter::up_to(count),
    };
    let others = Stopwatch::new(
        Lateness::new(Place::Redis, Load::Steady(OTHERS))?,
        usize::MAX,
    );
    let plugin = DelayQueuePlugin::builder()
        .url(url)
        .without_registered_workers()
        .worker(HERD, WorkerOptions::default(), herd.clone())
        .worker(OTHER, WorkerOptions::default(), others.clone())
        .start()
        .await?;
    println!("up");
    herd.counter.wait().await?;
    println!("run");
    let lateness = others.lateness();
    let report = Report {
        repeats: herd
            .marks
            .iter()
            .filter(|mark| mark.load(Ordering::Relaxed) != 1)
            .count(),
        others: lateness.histogram.len() + lateness.early,
        others_early: lateness.early,
        others_p99_ms: lateness.percentile_ms(99.0),
        others_max_ms: lateness.percentile_ms(100.0),
        peak_kib: peak_kib()?,
    };
    end(plugin).await;
    println!("{}", serde_json::to_string(&report)?);
    Ok(())
}

/// The most memory that this process has had.
fn peak_kib() -> Result<f64, Failure> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let mut lines = status.lines();
    let line = lines.find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|line| line.trim().strip_suffix(" kB"));
    Ok(kib.ok_or("no VmHWM in /proc/self/status")?.parse()?)
}

pub(crate) async fn measure(count: usize) -> Result<Herd, Failure> {
    let server = RedisServer::start(Persistence::EverySecond, &SLOW);
    let mut child = Child::start(&Role::Herd {
        url: server.url(),
        count,
    })?;
    child.expect("up").await?;
    let store = open_store(&server.url(), StoreOptions::default()).await?;
    let tasks = TaskSubmitService::new(store);
    tasks.pause(HERD, None).await?;
    let now = SystemClock.now();
    gather(&tasks, count, |job| job.at(now)).await?;
    let waited_before = waited_us(&server);
    let redis = redis::Client::open(server.url())?;
    redis::cmd("SLOWLOG")
        .arg("RESET")
        .query::<()>(&mut redis.get_connection()?)?;
    let other_tasks = tokio::spawn(send_others(tasks.clone()));
    let started = Instant::now();
    tasks.resume(HERD).await?;
    child.expect("run").await?;
    let rate = rate(count, started);
    let report: Report = serde_json::from_str(&child.line().await?)?;
    other_tasks.abort();
    child.end().await?;
    let slow = slow_calls(&redis)?;
    println!("    {count} due at once: {report:?}");
    println!(
        "    {} calls of the server took more than 5 ms, the longest {:?} us; it waited {} us for a processor",
        slow.len(),
        slow.iter().max().unwrap_or(&0),
        waited_us(&server) - waited_before
    );
    if report.repeats + usize::try_from(report.others_early)? > 0 {
        return Err("a task ran twice, or early".into());
    }
    Ok(Herd {
        rate,
        memory: report.peak_kib / 1024.0,
        #[allow(clippy::cast_precision_loss, reason = "a few calls")]
        slow_calls: slow.len() as f64,
        others_p99: report.others_p99_ms,
        restart: restart(count).await?,
    })
}

async fn gather(
    tasks: &TaskSubmitService,
    count: usize,
    due: impl Fn(DelayQueueJob) -> DelayQueueJob,
) -> Result<(), Failure> {
    for numbers in parts(count, BULK) {
        let job = |number: usize| {
            let job = DelayQueueJob::new(HERD, &Message::new(number))?;
            Ok(due(job.id(number.to_string())))
        };
        let jobs = numbers.map(job).collect::<Result<Vec<_>, Failure>>()?;
        for sent in tasks.send_all(jobs).await {
            sent?;
        }
    }
    Ok(())
}

/// Until it is aborted.
async fn send_others(tasks: TaskSubmitService) -> Result<(), Failure> {
    let mut every = interval(seconds(1) / OTHERS);
    loop {
        every.tick().await;
        tasks
            .send(DelayQueueJob::new(OTHER, &Message::new(0))?.after(millis(200)))
            .await?;
    }
}

/// An entry of the log of slow calls: its number, when, how long, the call, and who called.
type Slow = (u64, u64, u64, Vec<String>, String, String);

/// Script calls of more than 5 ms, in microseconds each.
fn slow_calls(redis: &redis::Client) -> Result<Vec<u64>, Failure> {
    let mut log = redis::cmd("SLOWLOG");
    let slow: Vec<Slow> = log.arg("GET").arg(-1).query(&mut redis.get_connection()?)?;
    let scripts = slow
        .iter()
        .filter(|(_, _, _, call, ..)| call.first().is_some_and(|word| word == "EVALSHA"));
    Ok(scripts.map(|(_, _, micros, ..)| *micros).collect())
}

/// How long the server has waited for a processor that others had; 0 where the system does not
/// tell.
fn waited_us(server: &RedisServer) -> u64 {
    let pid = server.pid().unwrap_or_default();
    let told = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/schedstat"));
    let told = told.unwrap_or_default();
    let nanos = told.split_whitespace().nth(1);
    nanos
        .and_then(|nanos| nanos.parse::<u64>().ok())
        .unwrap_or(0)
        / 1_000
}

/// Waits until the server has written everything to its file: while it syncs, it holds back what it
/// has acknowledged, and would lose that.
async fn synced(server: &RedisServer) -> Result<(), Failure> {
    let client = redis::Client::open(server.url())?;
    let mut connection = client.get_multiplexed_async_connection().await?;
    loop {
        let mut ask = redis::cmd("INFO");
        let info: redis::InfoDict = ask.arg("persistence").query_async(&mut connection).await?;
        let left = ["aof_buffer_length", "aof_pending_bio_fsync"];
        if left.iter().all(|field| info.get::<u64>(field) == Some(0)) {
            return Ok(());
        }
        tokio::time::sleep(millis(10)).await;
    }
}

/// Seconds from the start of a killed server with so many tasks to the first task.
async fn restart(count: usize) -> Result<f64, Failure> {
    let mut server = RedisServer::start(Persistence::EverySecond, &[]);
    let worker = Counter::up_to(1);
    let plugin = DelayQueuePlugin::builder()
        .url(server.url())
        .without_registered_workers()
        .worker(PROBE, WorkerOptions::default(), worker.clone())
        .start()
        .await?;
    let tasks = plugin.submit_service();
    gather(&tasks, count, |job| job.after(hours(1))).await?;
    tasks
        .send(DelayQueueJob::new(PROBE, &Message::new(0))?.after(PROBE_AFTER))
        .await?;
    synced(&server).await?;
    server.kill();
    tokio::time::sleep(PROBE_AFTER).await;
    let started = Instant::now();
    tokio::task::block_in_place(|| server.restart());
    let up = started.elapsed();
    worker.wait().await?;
    let restart = started.elapsed();
    println!(
        "    killed with {count} tasks: answers {up:?} after its start, the first task starts after {restart:?}"
    );
    end(plugin).await;
    Ok(restart.as_secs_f64())
}
