//! Four processes on one store: limits of the fleet are never exceeded, and used; the list of
//! instances is right. What ran when is told by the workers, each in the log of its process; the
//! store is not asked.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "what a test must not do in silence, it does by panicking; it prints what it measured"
)]

use std::collections::BTreeSet;
use std::ops::Range;

use delayq_core::operate::TypeSettings;
use delayq_plugin::{FleetLimits, Rate, TaskSubmitService};
use delayq_tests::instance::Instance;
use delayq_tests::instance::history::{Attempt, History};
use delayq_tests::instance::plan::{Chore, Plan, Served};
use delayq_tests::instance::scene::Scene;
use delayq_tests::redis_server::{Persistence, RedisServer};
use delayq_tests::rig::until;

const INSTANCE: &str = env!("CARGO_BIN_EXE_instance");
const PROCESSES: usize = 4;
/// What may be left unused of a limit: a tenth. The soak asserts it: a busy machine uses less.
const USED: f64 = 0.9;

/// A scene, and the server that it is on.
type Stage = (Scene, Option<RedisServer>);

fn on_redis() -> Stage {
    let server = RedisServer::start(Persistence::EverySecond, &[]);
    (Scene::on(INSTANCE, server.url()), Some(server))
}

fn on_sqlite() -> Stage {
    (Scene::on_sqlite(INSTANCE), None)
}

async fn shard(service: &TaskSubmitService, shards: u32) {
    let settings = TypeSettings::default().shards(shards);
    service.configure_type("job", &settings).await.unwrap();
}

/// Tasks that are all due.
#[derive(Clone, Copy)]
struct Crowd {
    tasks: usize,
    work_ms: u64,
    /// How many shards the type gets once half of the tasks have started.
    resize_to: Option<u32>,
}

impl Crowd {
    fn of(tasks: usize, work_ms: u64) -> Self {
        Self {
            tasks,
            work_ms,
            resize_to: None,
        }
    }
}

/// Four instances meet the crowd.
async fn meet(scene: &mut Scene, fleet: FleetLimits, crowd: Crowd) -> History {
    let service = scene.service().await;
    service.pause("job", None).await.unwrap();
    let mut instances: Vec<Instance> = Vec::new();
    for _ in 0..PROCESSES {
        let served = Served {
            fleet_concurrency: fleet.concurrency,
            fleet_rate: fleet.rate.map(|rate| rate.starts),
            lock_ms: 10_000,
            ..Served::new("job")
        };
        let plan = Plan {
            served: vec![served],
            ..scene.plan([])
        };
        instances.push(scene.start(&plan).await);
    }
    let (all, half) = (crowd.tasks, crowd.tasks / 2);
    let now = if crowd.resize_to.is_some() { half } else { all };
    send(&service, 0..now, crowd.work_ms).await;
    service.resume("job").await.unwrap();
    if let Some(shards) = crowd.resize_to {
        until("some of them", || async {
            let stats = service.stats("job").await.unwrap();
            (stats.due <= u64::try_from(half / 2).unwrap()).then_some(())
        })
        .await;
        shard(&service, shards).await;
        send(&service, now..all, crowd.work_ms).await;
    }
    scene.drained(&service).await;
    let history = scene.history();
    assert_eq!(history.starts().count(), all, "each was started once");
    let shares = instances.iter().map(|one| history.share_of(&one.name));
    println!("shares: {:?}", shares.collect::<Vec<_>>());
    history
}

async fn send(service: &TaskSubmitService, tasks: Range<usize>, work_ms: u64) {
    let job = |n: usize| Chore::Work(work_ms).job("job").id(n.to_string());
    let results = service.send_all(tasks.map(job).collect()).await;
    assert!(results.iter().all(Result::is_ok), "{results:?}");
}

fn end_of(start: &Attempt) -> i64 {
    start.end.unwrap().0
}

#[allow(clippy::cast_precision_loss, reason = "milliseconds of a test")]
fn share(part: i64, whole: i64) -> f64 {
    part as f64 / whole as f64
}

/// That it is used shows a run in which the machine did not stand still.
async fn concurrency(stage: impl Fn() -> Stage) {
    let mut used = Vec::new();
    for _ in 0..3 {
        used.push(use_of_slots(stage()).await);
        if !cfg!(feature = "soak") || used.last().is_some_and(|used| *used >= USED) {
            return;
        }
    }
    panic!("used: {used:?}");
}

/// The limit is reached and never exceeded. Returns the share of it that was used.
async fn use_of_slots((mut scene, _server): Stage) -> f64 {
    const LIMIT: u32 = 10;
    let fleet = FleetLimits {
        concurrency: Some(LIMIT),
        rate: None,
    };
    let history = meet(&mut scene, fleet, Crowd::of(300, 200)).await;
    let most = history.most_at_a_time();
    assert_eq!(
        most,
        i64::from(LIMIT),
        "the limit is reached and not exceeded"
    );
    let first = history.starts().map(|start| start.at).min().unwrap();
    let last = history.starts().map(end_of).max().unwrap();
    let busy: i64 = history.starts().map(|start| end_of(start) - start.at).sum();
    let used = share(busy, i64::from(LIMIT) * (last - first));
    println!(
        "{LIMIT} slots, {:.1} % used over {} ms",
        100.0 * used,
        last - first
    );
    used
}

#[tokio::test]
async fn four_processes_keep_and_use_a_limit_of_concurrency_on_redis() {
    concurrency(on_redis).await;
}

#[tokio::test]
async fn four_processes_keep_and_use_a_limit_of_concurrency_on_sqlite() {
    concurrency(on_sqlite).await;
}

/// The most starts beyond what the rate allows in the time between any two of them, by the time at
/// which each was handed out: below or at the burst, and up to one more as times are cut to
/// milliseconds.
fn most_beyond(times: &[i64], rate: Rate) -> f64 {
    let interval = 1_000.0 / f64::from(rate.starts);
    let mut beyond = f64::MIN;
    // What the starts so far are ahead of the rate, from the best beginning.
    let mut ahead = 0.0_f64;
    for pair in times.windows(2) {
        ahead = ahead.max(0.0) + 1.0 - share(pair[1] - pair[0], 1) / interval;
        beyond = beyond.max(ahead);
    }
    beyond + 1.0
}

/// The rate is never exceeded. That it is used shows a run in which the machine did not stand
/// still: starts that are missed beyond the burst never come again.
async fn rate(stage: impl Fn() -> Stage) {
    let mut seen = Vec::new();
    for _ in 0..3 {
        let used = use_of_rate(stage()).await;
        if !cfg!(feature = "soak") || (USED..=1.01).contains(&used) {
            return;
        }
        seen.push(used);
    }
    panic!("used: {seen:?}");
}

/// The rate is kept. Returns the share of it that was used.
async fn use_of_rate((mut scene, _server): Stage) -> f64 {
    const TASKS: usize = 800;
    let rate = Rate::per_second(100);
    let fleet = FleetLimits {
        concurrency: None,
        rate: Some(rate),
    };
    let history = meet(&mut scene, fleet, Crowd::of(TASKS, 1)).await;
    let mut claimed: Vec<_> = history.starts().map(|start| start.claimed).collect();
    claimed.sort_unstable();
    let beyond = most_beyond(&claimed, rate);
    let slack = f64::from(rate.starts) * 0.001;
    println!(
        "at most {beyond:.1} starts beyond the rate, of a burst of {}",
        rate.burst
    );
    assert!(beyond <= f64::from(rate.burst) + slack, "{beyond}");
    let mut started: Vec<_> = history.starts().map(|start| start.at).collect();
    started.sort_unstable();
    let took = started[TASKS - 1] - started[0];
    let possible = took * i64::from(rate.starts) / 1_000 + i64::from(rate.burst);
    let used = share(i64::try_from(TASKS).unwrap(), possible);
    println!("{rate}: {:.1} % used over {took} ms", 100.0 * used);
    used
}

#[tokio::test]
async fn four_processes_keep_and_use_a_limit_of_rate_on_redis() {
    rate(on_redis).await;
}

#[tokio::test]
async fn four_processes_keep_and_use_a_limit_of_rate_on_sqlite() {
    rate(on_sqlite).await;
}

#[tokio::test]
async fn four_processes_start_each_task_once_while_their_type_is_resized() {
    let (mut scene, _server) = on_redis();
    let crowd = Crowd {
        resize_to: Some(8),
        ..Crowd::of(2_000, 5)
    };
    let history = meet(&mut scene, FleetLimits::NONE, crowd).await;
    let names = history.starts().map(|start| start.name.clone());
    let instances: BTreeSet<String> = names.collect();
    assert_eq!(instances.len(), PROCESSES, "all of them work");
}

/// Awaits that so many instances are listed; returns their processes.
async fn listed(service: &TaskSubmitService, count: usize) -> Vec<u32> {
    until("the list of instances", || async {
        let instances = service.instances().await.unwrap();
        let pids = instances.iter().map(|instance| instance.pid);
        (instances.len() == count).then(|| pids.collect())
    })
    .await
}

async fn presence((mut scene, _server): Stage) {
    let service = scene.service().await;
    let mut instances = Vec::new();
    for _ in 0..PROCESSES {
        instances.push(scene.start(&scene.plan(["job"])).await);
    }
    let before = listed(&service, PROCESSES).await;
    let mut leaver = instances.remove(0);
    leaver.signal("TERM");
    assert!(leaver.ended().await.success());
    // It has taken itself off the list before it ended: nobody waits for its expiry.
    let now = service.instances().await.unwrap();
    assert_eq!(now.len(), PROCESSES - 1, "{now:?}");
    for instance in now {
        assert!(before.contains(&instance.pid));
        assert_eq!(instance.types.len(), 1);
        println!("{instance}");
    }
}

#[tokio::test]
async fn four_processes_are_listed_until_they_end_on_redis() {
    presence(on_redis()).await;
}

#[tokio::test]
async fn four_processes_are_listed_until_they_end_on_sqlite() {
    presence(on_sqlite()).await;
}
