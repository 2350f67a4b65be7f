//! The same work on more than one server: what encryption, a replica and a cluster cost and give.

use std::time::{Duration, Instant};

use delayq_core::operate::TypeSettings;
use delayq_core::store::StoreOptions;
use delayq_plugin::{DelayQueuePlugin, TaskType, WorkerOptions, open_store};
use tokio::task::JoinSet;

use super::several::{Servers, Setup};
use crate::Failure;
use crate::bare_redis::{BareRedis, all_run, cpu_us_each, rate};
use crate::curve::Extent;
use crate::curve::pace;
use crate::curve::sheet::{Line, Panel, Scale, Sheet};
use crate::figure::{short, spread};
use crate::latency::Latency;
use crate::load::{self, BULK, Ids, TASK_TYPE};
use crate::redis_server::{Persistence, RedisServer};
use crate::stage::end;
use crate::worker::Counter;

const SETUPS: [Setup; 6] = [
    Setup::One,
    Setup::Encrypted,
    Setup::Replica,
    Setup::Confirmed,
    Setup::Cluster(1),
    Setup::Cluster(6),
];

/// How many servers the bare scripts are run on, by as many loops each time: what more of them cost
/// anybody.
const BARE: [usize; 2] = [1, 3];
const LOOPS: usize = 3;

/// Tasks under way at once, at most: four times as many as by default, so that a claim finds room
/// for a batch of each shard.
const UNDER_WAY: usize = 1_024;

const HEAD: [&str; 7] = [
    "servers",
    "one after the other, µs",
    "singly, 64 in flight, tasks/s",
    "in bulk, tasks/s",
    "drained, tasks/s",
    "processor time of each server, µs a task",
    "largest share of it / smallest",
];

/// What was measured of one setup, in all rounds.
#[derive(Debug, Default)]
struct Samples {
    latency: Vec<f64>,
    singly: Vec<f64>,
    bulk: Vec<f64>,
    drain: Vec<f64>,
    /// Of each server.
    cpu: Vec<Vec<f64>>,
}

/// Measures each setup.
pub(crate) async fn measure(extent: &Extent) -> Result<Sheet, Failure> {
    let mut all = SETUPS.map(|_| Samples::default());
    let mut bare = BARE.map(|_| Samples::default());
    for _ in 0..extent.rounds {
        for (setup, samples) in SETUPS.into_iter().zip(&mut all) {
            round(setup, extent, samples).await?;
        }
        for (servers, samples) in BARE.into_iter().zip(&mut bare) {
            bare_round(servers, extent.tasks, samples).await?;
        }
    }
    let medians: Vec<[f64; 4]> = all.iter().map(Samples::medians).collect();
    let names = SETUPS.map(Setup::name).into_iter();
    let names = names.chain(BARE.map(|servers| format!("bare scripts, servers: {servers}")));
    Ok(Sheet {
        head: &HEAD,
        rows: names
            .zip(all.iter().chain(&bare))
            .map(|(name, samples)| samples.row(name))
            .collect(),
        panels: vec![panel(&medians)],
    })
}

impl Samples {
    fn medians(&self) -> [f64; 4] {
        [&self.latency, &self.singly, &self.bulk, &self.drain].map(|samples| spread(samples)[1])
    }

    fn add_cpu(&mut self, before: Vec<Duration>, after: Vec<Duration>, count: usize) {
        self.cpu.resize_with(after.len(), Vec::new);
        for (samples, (before, after)) in self.cpu.iter_mut().zip(before.into_iter().zip(after)) {
            samples.push(cpu_us_each(before, after, count));
        }
    }

    fn row(&self, name: String) -> Vec<String> {
        let cpu = self.cpu();
        let (most, least) = cpu.iter().fold((0.0_f64, f64::MAX), |(most, least), &us| {
            (most.max(us), least.min(us))
        });
        let each: Vec<_> = cpu.iter().map(|us| format!("{us:.1}")).collect();
        let rates = self.medians().map(|rate| {
            let known = !rate.is_nan();
            if known { short(rate) } else { "–".to_owned() }
        });
        let mut row = vec![name];
        row.extend(rates);
        row.extend([each.join(" + "), format!("{:.2}", most / least)]);
        row
    }

    /// The median of each server.
    fn cpu(&self) -> Vec<f64> {
        self.cpu.iter().map(|samples| spread(samples)[1]).collect()
    }
}

async fn round(setup: Setup, extent: &Extent, samples: &mut Samples) -> Result<(), Failure> {
    let servers = split(setup).await?;
    samples
        .latency
        .push(one_by_one(&servers.url, extent.calls).await?);
    let servers = split(setup).await?;
    samples
        .singly
        .push(pace::singly(&servers.url, extent.single).await?);
    let servers = split(setup).await?;
    let before = busy(&servers.masters).await?;
    let options = WorkerOptions {
        concurrency: UNDER_WAY,
        ..WorkerOptions::default()
    };
    let pace = pace::in_bulk((&servers.url, options), extent.tasks, BULK, pace::now).await?;
    let after = busy(&servers.masters).await?;
    samples.bulk.push(pace.submit);
    samples.drain.push(pace.drain);
    samples.add_cpu(before, after, extent.tasks);
    println!("  {}: {pace:?}", setup.name());
    Ok(())
}

/// The same load without delayq: each loop sends its share to its server, then claims and settles
/// until nothing is left there.
async fn bare_round(servers: usize, count: usize, samples: &mut Samples) -> Result<(), Failure> {
    let start = |_| RedisServer::start(Persistence::None, &[]);
    let servers: Vec<_> = (0..servers).map(start).collect();
    let mut loops = Vec::new();
    for server in servers.iter().cycle().take(LOOPS) {
        loops.push(BareRedis::connect(&server.url()).await?);
    }
    let before = busy(&servers).await?;
    let started = Instant::now();
    let share = count / LOOPS;
    let mut sent = JoinSet::new();
    for mut bare in loops.clone() {
        sent.spawn(async move { bare.submit_all(share, 0, Ids::Generated).await });
    }
    while let Some(ended) = sent.join_next().await {
        ended??;
    }
    samples.bulk.push(rate(share * LOOPS, started));
    let started = Instant::now();
    let mut run = JoinSet::new();
    for mut bare in loops {
        run.spawn(async move { bare.run_all().await });
    }
    let mut done = 0;
    while let Some(ended) = run.join_next().await {
        done += ended??;
    }
    all_run(done, share * LOOPS)?;
    samples.drain.push(rate(done, started));
    samples.add_cpu(before, busy(&servers).await?, count);
    Ok(())
}

/// Fresh servers, on which the type has its shards.
async fn split(setup: Setup) -> Result<Servers, Failure> {
    let servers = setup.start().await?;
    if setup.shards() > 1 {
        let store = open_store(&servers.url, StoreOptions::default()).await?;
        let settings = TypeSettings::default().shards(setup.shards());
        store
            .configure_type(&TaskType::new(TASK_TYPE)?, &settings)
            .await?;
    }
    Ok(servers)
}

/// Microseconds of one `send` at the median, one after the other.
async fn one_by_one(url: &str, calls: usize) -> Result<f64, Failure> {
    let plugin = DelayQueuePlugin::builder()
        .url(url)
        .without_registered_workers();
    let worker = (TASK_TYPE, WorkerOptions::default(), Counter::up_to(0));
    let plugin = plugin.worker(worker.0, worker.1, worker.2).start().await?;
    let tasks = plugin.submit_service();
    let mut latency = Latency::new()?;
    for number in 0..calls {
        let job = load::later(number)?;
        let started = Instant::now();
        tasks.send(job).await?;
        latency.record(started);
    }
    end(plugin).await;
    Ok(latency.median_us())
}

async fn busy(servers: &[RedisServer]) -> Result<Vec<Duration>, Failure> {
    let mut times = Vec::new();
    for master in servers {
        times.push(BareRedis::connect(&master.url()).await?.cpu_time().await?);
    }
    Ok(times)
}

fn panel(medians: &[[f64; 4]]) -> Panel {
    let line = |(at, name): (usize, &str)| {
        let values = medians
            .iter()
            .filter_map(|rates| rates.get(at + 1).copied());
        Line::new(name, values)
    };
    Panel {
        title: "More than one server",
        unit: "tasks/s",
        along: "servers",
        places: [
            "one",
            "TLS",
            "replica",
            "replicated",
            "cluster, 1",
            "cluster, 6",
        ]
        .map(str::to_owned)
        .to_vec(),
        scale: Scale::Linear,
        lines: ["singly", "in bulk", "drained"]
            .into_iter()
            .enumerate()
            .map(line)
            .collect(),
    }
}
