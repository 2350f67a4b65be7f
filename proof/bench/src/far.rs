//! Tasks of the far future: the memory that many of them take in Redis, packed and not, and what a
//! cold store costs. `cargo xtask bench --far`.

use std::fmt::Write;
use std::sync::Arc;
use std::time::{Duration, Instant};

use delayq_core::store::StoreOptions;
use delayq_plugin::{
    Clock, DelayQueueJob, DelayQueuePlugin, Store, SystemClock, TaskSubmitService, TaskType,
    Timestamp, WorkerOptions, millis, open_store, seconds,
};
use delayq_tiered::{TierOptions, TieredStore};
use tokio::time::sleep;

use crate::Failure;
use crate::bare_redis::{BareRedis, SETTLED, bytes_each, rate};
use crate::document;
use crate::latency::Latency;
use crate::load::{BULK, TASK_TYPE, parts};
use crate::machine::Machine;
use crate::postgres_server::PostgresServer;
use crate::redis_server::{Persistence, RedisServer};
use crate::stage::end;
use crate::throughput::all_accepted;
use crate::worker::Counter;

/// The message of each task.
const MESSAGE: [u8; 100] = [b'7'; 100];
/// Due times are spread over so many milliseconds, from two hours on.
const DUE_MS: std::ops::Range<u64> = 7_200_000..2_592_000_000;
/// The tier of this benchmark: tasks are moved this long before they are due, as soon as may be.
const LEAD: Duration = seconds(1);
const HORIZON: Duration = seconds(2);
const LOCK: Duration = seconds(10);
/// How long the tasks to move may take to be sent.
const FILL: Duration = seconds(60);
/// The type of the near tasks, without far ones.
const NEAR: &str = "bench.near";

/// How much is measured.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Extent {
    packed: usize,
    unpacked: usize,
    moved: usize,
    herd: usize,
    calls: usize,
}

impl Extent {
    pub(crate) const FULL: Self = Self {
        packed: 10_000_000,
        unpacked: 1_000_000,
        moved: 500_000,
        herd: 300_000,
        calls: 5_000,
    };
    pub(crate) const QUICK: Self = Self {
        packed: 100_000,
        unpacked: 50_000,
        moved: 30_000,
        herd: 30_000,
        calls: 500,
    };
}

/// What a Redis with far tasks was like.
#[derive(Debug)]
struct Memory {
    tasks: usize,
    used: u64,
    resident: u64,
    each: f64,
    rate: f64,
    find_us: f64,
    cancel_us: f64,
}

/// Measures, and writes the part of the document about it if that is wanted.
pub(crate) async fn run(extent: &Extent, is_documented: bool) -> Result<(), Failure> {
    let machine = Machine::look()?;
    println!("{machine}");
    let packed = memory("pack=auto", extent.packed, extent.calls).await?;
    let plain = memory("pack=off", extent.unpacked, extent.calls).await?;
    let mut section = format!("`cargo xtask bench --far` on {machine}.\n\n");
    memory_table(&mut section, &[("packed", &packed), ("not packed", &plain)])?;
    section.push_str(&herds(extent.herd).await?);
    section.push_str(&tier(extent).await?);
    println!("\n{section}");
    if is_documented {
        document::write_far(&section)?;
    }
    Ok(())
}

fn id(number: usize) -> String {
    format!("order-{number:010}")
}

/// Fills a new Redis, and looks at it.
async fn memory(option: &str, count: usize, calls: usize) -> Result<Memory, Failure> {
    let server = RedisServer::start(Persistence::None, &[]);
    let options = StoreOptions {
        durability: delayq_core::store::Durability::Memory,
        ..StoreOptions::default()
    };
    let store = open_store(&format!("{}?{option}", server.url()), options).await?;
    let tasks = TaskSubmitService::new(store);
    let mut redis = BareRedis::connect(&server.url()).await?;
    sleep(SETTLED).await;
    let before = redis.used_memory().await?;
    let started = Instant::now();
    fill(&tasks, count, |_| {
        DelayQueueJob::raw(TASK_TYPE, MESSAGE).after(millis(fastrand::u64(DUE_MS)))
    })
    .await?;
    let rate = rate(count, started);
    // Buffers of connections are freed first.
    sleep(SETTLED).await;
    let used = redis.used_memory().await?;
    let resident = redis.info("memory", "used_memory_rss").await?.parse()?;
    let (mut find, mut cancel) = (Latency::new()?, Latency::new()?);
    for _ in 0..calls {
        let number = fastrand::usize(0..count);
        let started = Instant::now();
        let found = tasks.find(TASK_TYPE, &id(number)).await?;
        find.record(started);
        if found.is_none() {
            return Err(format!("{} is not there", id(number)).into());
        }
    }
    for step in 0..calls {
        // Each once.
        let number = step * (count / calls) + fastrand::usize(0..count / calls);
        let started = Instant::now();
        let _ = tasks.cancel(TASK_TYPE, &id(number)).await?;
        cancel.record(started);
    }
    println!("  {option}: {count} tasks, {used} bytes used, {resident} resident");
    Ok(Memory {
        tasks: count,
        used,
        resident,
        each: bytes_each(used, before, count),
        rate,
        find_us: find.median_us(),
        cancel_us: cancel.median_us(),
    })
}

/// Sends so many tasks.
async fn fill(
    tasks: &TaskSubmitService,
    count: usize,
    job: impl Fn(usize) -> DelayQueueJob,
) -> Result<(), Failure> {
    for bulk in parts(count, BULK) {
        let jobs = bulk.map(|number| job(number).id(id(number))).collect();
        all_accepted(tasks.send_all(jobs).await)?;
    }
    Ok(())
}

fn memory_table(section: &mut String, rows: &[(&str, &Memory)]) -> Result<(), Failure> {
    section.push_str(
        "Messages of 100 bytes, ids of 16, due in two hours to thirty days:\n\n\
         | Redis | tasks | `used_memory`, MiB | RSS, MiB | bytes a task | tasks/s sent | find, p50 µs | cancel, p50 µs |\n\
         |---|---:|---:|---:|---:|---:|---:|---:|\n",
    );
    for (name, it) in rows {
        let mib = |bytes: u64| bytes >> 20;
        writeln!(
            section,
            "| {name} | {} | {} | {} | {:.0} | {:.0} | {:.0} | {:.0} |",
            it.tasks,
            mib(it.used),
            mib(it.resident),
            it.each,
            it.rate,
            it.find_us,
            it.cancel_us
        )?;
    }
    section.push('\n');
    Ok(())
}

/// A herd that is due at once.
#[derive(Clone, Copy, Debug)]
struct HerdCase {
    name: &'static str,
    option: &'static str,
    /// How far ahead it is sent.
    ahead: Duration,
    /// The workers are there before it is due.
    is_awaited: bool,
}

const HERDS: [HerdCase; 4] = [
    HerdCase {
        name: "not packed, workers are there",
        option: "pack=off",
        ahead: seconds(30),
        is_awaited: true,
    },
    HerdCase {
        name: "packed, workers are there",
        option: "pack=auto",
        ahead: seconds(330),
        is_awaited: true,
    },
    HerdCase {
        name: "not packed, workers start later",
        option: "pack=off",
        ahead: seconds(30),
        is_awaited: false,
    },
    HerdCase {
        name: "packed, workers start later",
        option: "pack=auto",
        ahead: seconds(330),
        is_awaited: false,
    },
];

async fn herds(count: usize) -> Result<String, Failure> {
    let mut section = format!(
        "{count} tasks that are due at the same time, run by a process on the same machine:\n\n\
         | | tasks/s |\n|---|---:|\n"
    );
    for case in HERDS {
        let rate = herd(case, count).await?;
        println!("  {}: {rate:.0} tasks/s", case.name);
        writeln!(section, "| {} | {rate:.0} |", case.name)?;
    }
    section.push('\n');
    Ok(section)
}

/// Tasks a second from the due time, or the start of the workers, until all have run.
async fn herd(case: HerdCase, count: usize) -> Result<f64, Failure> {
    let server = RedisServer::start(Persistence::EverySecond, &[]);
    let url = format!("{}?{}", server.url(), case.option);
    let tasks = TaskSubmitService::new(open_store(&url, StoreOptions::default()).await?);
    let due = SystemClock.now().plus(case.ahead);
    fill(&tasks, count, |_| {
        DelayQueueJob::raw(TASK_TYPE, MESSAGE).at(due)
    })
    .await?;
    let counter = Counter::up_to(count);
    let start = || {
        DelayQueuePlugin::builder()
            .url(url.as_str())
            .without_registered_workers()
            .worker(TASK_TYPE, WorkerOptions::default(), counter.clone())
            .start()
    };
    let early = if case.is_awaited {
        Some(start().await?)
    } else {
        None
    };
    let wait = due.since(SystemClock.now());
    if wait.is_zero() {
        return Err("the tasks took too long to be sent".into());
    }
    sleep(wait).await;
    let started = Instant::now();
    let plugin = match early {
        Some(plugin) => plugin,
        None => start().await?,
    };
    counter.wait().await?;
    let rate = rate(count, started);
    end(plugin).await;
    Ok(rate)
}

/// A Redis before a PostgreSQL: how fast tasks are moved, and what a near send costs.
async fn tier(extent: &Extent) -> Result<String, Failure> {
    let (redis, postgres) = (
        RedisServer::start(Persistence::EverySecond, &[]),
        PostgresServer::start(&[]),
    );
    let hot = open_store(&redis.url(), StoreOptions::default()).await?;
    let cold = open_store(&postgres.url(), StoreOptions::default()).await?;
    let options = TierOptions::new(HORIZON, &StoreOptions::default());
    let options = options.for_tests(LEAD, LOCK, Arc::new(SystemClock));
    let alone = TaskSubmitService::new(Arc::clone(&hot));
    let near_alone = near(&alone, NEAR, extent.calls, "alone").await?;
    let tier = TieredStore::open(hot, Arc::clone(&cold), options)?;
    let tasks = TaskSubmitService::new(tier);
    let near_without = near(&tasks, NEAR, extent.calls, "tier").await?;
    let due = SystemClock.now().plus(FILL);
    let started = Instant::now();
    fill(&tasks, extent.moved, |_| {
        DelayQueueJob::raw(TASK_TYPE, MESSAGE).at(due)
    })
    .await?;
    let sent = rate(extent.moved, started);
    let near_with = near(&tasks, TASK_TYPE, extent.calls, "beside").await?;
    let moved = moved(&*cold, due, extent.moved).await?;
    Ok(format!(
        "Redis as the hot store, PostgreSQL as the cold one, {} tasks that are moved at the same time:\n\n\
         | | |\n|---|---:|\n\
         | far tasks sent, tasks/s | {sent:.0} |\n\
         | moved from cold to hot, tasks/s | {moved:.0} |\n\
         | near send on Redis alone, p50 µs | {near_alone:.0} |\n\
         | near send, type without far tasks | {near_without:.0} |\n\
         | near send, type with far tasks | {near_with:.0} |\n",
        extent.moved
    ))
}

/// Microseconds of one near send at the median.
async fn near(
    tasks: &TaskSubmitService,
    task_type: &str,
    calls: usize,
    name: &str,
) -> Result<f64, Failure> {
    let mut latency = Latency::new()?;
    for number in 0..calls {
        let job = DelayQueueJob::raw(task_type, MESSAGE).id(format!("{name}-{number}"));
        let job = job.after(millis(1_500));
        let started = Instant::now();
        tasks.send(job).await?;
        latency.record(started);
    }
    Ok(latency.median_us())
}

/// Tasks a second from the time when the first may be moved until none is in cold.
async fn moved(cold: &dyn Store, due: Timestamp, count: usize) -> Result<f64, Failure> {
    let begin = due.minus(LEAD);
    let task_type = TaskType::new(TASK_TYPE)?;
    let wait = begin.since(SystemClock.now());
    if wait.is_zero() {
        return Err("the tasks took too long to be sent".into());
    }
    sleep(wait).await;
    let started = Instant::now();
    loop {
        let stats = cold.stats(&task_type).await?;
        if stats.scheduled + stats.running == 0 {
            return Ok(rate(count, started));
        }
        sleep(millis(20)).await;
    }
}
