//! Four processes on one store: limits of the fleet are never exceeded, and used; the list of instances is right.
//! What ran when is told by the workers, each in the log of its process; the store is not asked.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "what a test must not do in silence, it does by panicking; it prints what it measured"
)]

use std::ops::Range;

use delayq_core::store::TypeSettings;
use delayq_plugin::{FleetLimits, Rate, TaskSubmitService};
use delayq_tests::instance::Instance;
use delayq_tests::instance::history::{Attempt, History};
use delayq_tests::instance::plan::{Chore, Plan, Served};
use delayq_tests::instance::scene::Scene;
use delayq_tests::redis_server::{Persistence, RedisServer};
use delayq_tests::rig::until;

const INSTANCE: &str = env!("CARGO_BIN_EXE_instance");
const PROCESSES: usize = 4;
/// What may be left unused of a limit: a tenth.
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

/// How a type is split: before the first task is started, and while they are.
#[derive(Clone, Copy)]
struct Split {
    before: Option<u32>,
    meanwhile: &'static [u32],
}

const WHOLE: Split = Split {
    before: None,
    meanwhile: &[],
};
/// Into more partitions than the limit has places.
const SPLIT: Split = Split {
    before: Some(16),
    meanwhile: &[],
};
const RAISED: Split = Split {
    before: None,
    meanwhile: &[2, 8, 16],
};

async fn split(service: &TaskSubmitService, partitions: u32) {
    let settings = TypeSettings::default().partitions(partitions);
    service.configure_type("job", &settings).await.unwrap();
}

/// Four instances meet `tasks` that are all due, each of which takes `work_ms`.
async fn meet(
    scene: &mut Scene,
    fleet: FleetLimits,
    (tasks, work_ms): (usize, u64),
    how: Split,
) -> History {
    let service = scene.service().await;
    if let Some(partitions) = how.before {
        split(&service, partitions).await;
    }
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
    // Some to each generation, and all are there before the first is started.
    let raises = how.meanwhile.len();
    let at_once = tasks / (raises + 1);
    send(&service, 0..tasks - raises * at_once, work_ms).await;
    service.resume("job").await.unwrap();
    for (nth, partitions) in how.meanwhile.iter().enumerate() {
        let from = tasks - (raises - nth) * at_once;
        split(&service, *partitions).await;
        send(&service, from..from + at_once, work_ms).await;
        until("some of them", || async {
            let stats = service.stats("job").await.unwrap();
            let half = u64::try_from(at_once / 2).unwrap();
            (stats.due <= half * u64::try_from(raises - nth + 1).unwrap()).then_some(())
        })
        .await;
    }
    scene.drained(&service).await;
    let history = scene.history();
    assert_eq!(history.starts().count(), tasks, "each was started once");
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
async fn concurrency(stage: impl Fn() -> Stage, how: Split) {
    let mut used = Vec::new();
    for _ in 0..3 {
        used.push(use_of_places(stage(), how).await);
        if used.last().is_some_and(|used| *used >= USED) {
            return;
        }
    }
    panic!("used: {used:?}");
}

/// The limit is reached and never exceeded. Returns the share of it that was used.
async fn use_of_places((mut scene, _server): Stage, how: Split) -> f64 {
    const LIMIT: u32 = 10;
    let fleet = FleetLimits {
        concurrency: Some(LIMIT),
        rate: None,
    };
    let history = meet(&mut scene, fleet, (300, 200), how).await;
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
        "{LIMIT} places, {:.1} % used over {} ms",
        100.0 * used,
        last - first
    );
    used
}

#[tokio::test]
async fn four_processes_keep_and_use_a_limit_of_concurrency_on_redis() {
    concurrency(on_redis, WHOLE).await;
}

#[tokio::test]
async fn four_processes_keep_and_use_a_limit_of_concurrency_over_more_partitions_than_places() {
    concurrency(on_redis, SPLIT).await;
}

#[tokio::test]
async fn four_processes_keep_and_use_a_limit_of_concurrency_while_partitions_are_added() {
    concurrency(on_redis, RAISED).await;
}

#[tokio::test]
async fn four_processes_keep_and_use_a_limit_of_concurrency_on_sqlite() {
    concurrency(on_sqlite, WHOLE).await;
}

/// The most starts beyond what the rate allows in the time between any two of them, by the time at which each
/// was handed out: below or at the burst, and up to one more as times are cut to milliseconds.
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

/// It is never exceeded, as far as claims show: of a split type starts are granted before they are claimed, so that it is
/// kept to the start shows a run in which the machine did not stand still. So does that it is used: starts that are missed
/// beyond the burst never come again.
async fn rate(stage: impl Fn() -> Stage, how: Split) {
    let mut seen = Vec::new();
    for _ in 0..3 {
        let (used, beyond) = use_of_rate(stage(), how).await;
        if (USED..=1.01).contains(&used) && beyond <= 0.0 {
            return;
        }
        seen.push((used, beyond));
    }
    panic!("used, and beyond what is allowed: {seen:?}");
}

/// The share of the rate that was used, and by how many starts more than allowed the worst moment had.
async fn use_of_rate((mut scene, _server): Stage, how: Split) -> (f64, f64) {
    const TASKS: usize = 800;
    let rate = Rate::per_second(100);
    let fleet = FleetLimits {
        concurrency: None,
        rate: Some(rate),
    };
    let history = meet(&mut scene, fleet, (TASKS, 1), how).await;
    let mut claimed: Vec<_> = history.starts().map(|start| start.claimed).collect();
    claimed.sort_unstable();
    let beyond = most_beyond(&claimed, rate);
    // Starts of a split type are counted when they are granted, which is a little before the claim.
    let is_whole = how.before.is_none() && how.meanwhile.is_empty();
    let slack = f64::from(rate.starts) * if is_whole { 0.001 } else { 0.01 };
    println!(
        "at most {beyond:.1} starts beyond the rate, of a burst of {}",
        rate.burst
    );
    let burst = f64::from(rate.burst);
    // Granted in time, a whole burst can be claimed late, beside the next one.
    let most = if is_whole { burst } else { 2.0 * burst };
    assert!(beyond <= most + slack, "{beyond}");
    let mut started: Vec<_> = history.starts().map(|start| start.at).collect();
    started.sort_unstable();
    let took = started[TASKS - 1] - started[0];
    let possible = took * i64::from(rate.starts) / 1_000 + i64::from(rate.burst);
    let used = share(i64::try_from(TASKS).unwrap(), possible);
    println!("{rate}: {:.1} % used over {took} ms", 100.0 * used);
    (used, beyond - burst - slack)
}

#[tokio::test]
async fn four_processes_keep_and_use_a_limit_of_rate_on_redis() {
    rate(on_redis, WHOLE).await;
}

#[tokio::test]
async fn four_processes_keep_and_use_a_limit_of_rate_over_many_partitions() {
    rate(on_redis, SPLIT).await;
}

#[tokio::test]
async fn four_processes_keep_and_use_a_limit_of_rate_while_partitions_are_added() {
    rate(on_redis, RAISED).await;
}

#[tokio::test]
async fn four_processes_keep_and_use_a_limit_of_rate_on_sqlite() {
    rate(on_sqlite, WHOLE).await;
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
