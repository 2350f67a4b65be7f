//! Several instances on one store: they share the work, keep their locks, and hand over.

#![cfg_attr(
    not(feature = "soak"),
    allow(dead_code, reason = "long tests run with the feature soak")
)]
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "what a test must not do in silence, it does by panicking; it prints what it measured"
)]

use std::time::Duration;

use delayq_plugin::{Clock, SystemClock, TaskInfo, TaskState, millis, seconds};
use delayq_tests::instance::Instance;
use delayq_tests::instance::log::What;
use delayq_tests::instance::plan::{Chore, Outcome, Plan, Served};
use delayq_tests::instance::scene::{Fault, Scene};
use delayq_tests::redis_server::{Persistence, RedisServer};
use delayq_tests::rig::{info, reaches, until};

const INSTANCE: &str = env!("CARGO_BIN_EXE_instance");

fn redis() -> RedisServer {
    RedisServer::start(Persistence::EverySecond, &[])
}

fn on_redis(server: &RedisServer) -> Scene {
    Scene::on(INSTANCE, server.url())
}

fn plan_of(scene: &Scene, concurrency: usize, lock: Duration) -> Plan {
    let lock_ms = u64::try_from(lock.as_millis()).unwrap();
    Plan {
        served: vec![Served {
            concurrency,
            lock_ms,
            ..Served::new("job")
        }],
        ..scene.plan([])
    }
}

/// Where no lock is meant to end: also not if the machine stands still for a moment.
const LONG: Duration = Duration::from_secs(5);
/// Where locks end, or would if they were not extended.
const SHORT: Duration = Duration::from_secs(3);
/// More than any test needs.
const WIDE: usize = 128;

/// Ends it by SIGTERM; returns how many locks it found lost.
async fn terminate(instance: &mut Instance) -> u64 {
    instance.signal("TERM");
    assert!(instance.ended().await.success());
    let is_down = |what: &What| matches!(what, What::Down { .. });
    match instance.nth("the shutdown", 1, is_down).await.what {
        What::Down { locks_lost } => locks_lost,
        other => unreachable!("{other:?}"),
    }
}

/// Thousands of tasks, some due at once and some within a second, and three hungry instances.
async fn compete(mut scene: Scene) {
    const TASKS: usize = 5_000;
    let service = scene.service().await;
    let mut instances = Vec::new();
    for _ in 0..3 {
        instances.push(scene.start(&plan_of(&scene, 16, LONG)).await);
    }
    let job = |n: usize| {
        let job = Chore::Work(fastrand::u64(0..5)).job("job");
        job.id(n.to_string()).after(millis(fastrand::u64(0..1_000)))
    };
    for first in (0..TASKS).step_by(100) {
        let results = service
            .send_all((first..first + 100).map(job).collect())
            .await;
        assert!(results.iter().all(Result::is_ok), "{results:?}");
    }
    scene.drained(&service).await;
    let history = scene.history();
    assert_eq!(history.attempts.len(), TASKS, "every task was started");
    assert_eq!(history.starts().count(), TASKS, "no task was started twice");
    history.check_starts();
    let shares = instances
        .iter()
        .map(|instance| history.share_of(&instance.name));
    let shares: Vec<_> = shares.collect();
    println!("shares: {shares:?}");
    assert!(shares.iter().all(|share| *share > 0), "{shares:?}");
}

#[tokio::test]
async fn competing_instances_start_each_task_once_and_share_the_work_on_sqlite() {
    compete(Scene::on_sqlite(INSTANCE)).await;
}

#[tokio::test]
async fn competing_instances_start_each_task_once_and_share_the_work_on_redis() {
    let server = redis();
    compete(on_redis(&server)).await;
}

/// The application blocks its whole runtime for two and a half lock times, while another instance
/// waits for any lock to expire. Handlers have threads of their own, whatever the store: each store
/// and each kind of runtime has one test, and the soak has all four.
async fn block(mut scene: Scene, single_thread: bool) {
    const HELD: usize = 20;
    let service = scene.service().await;
    let plan = Plan {
        single_thread,
        ..plan_of(&scene, WIDE, SHORT)
    };
    let mut blocked = scene.start(&plan).await;
    for n in 0..HELD {
        Chore::Work(1_800)
            .send(&service, &n.to_string(), Duration::ZERO)
            .await;
    }
    blocked.started(HELD).await;
    blocked.tell("block 7500");
    let is_blocked = |what: &What| matches!(what, What::Blocked);
    blocked.nth("the block", 1, is_blocked).await;
    let mut hungry = scene.start(&plan_of(&scene, WIDE, SHORT)).await;
    let is_unblocked = |what: &What| matches!(what, What::Unblocked);
    let unblocked = blocked.nth("the end of the block", 1, is_unblocked).await;
    scene.drained(&service).await;
    let history = scene.history();
    for start in history.starts() {
        assert_eq!(
            (&start.name, start.attempt),
            (&blocked.name, 1),
            "{start:?}"
        );
        let (end, ..) = start.end.unwrap();
        assert!(
            end >= unblocked.at,
            "the runtime was not blocked: {start:?}"
        );
    }
    assert_eq!(history.starts().count(), HELD);
    assert_eq!(terminate(&mut blocked).await, 0);
    assert_eq!(terminate(&mut hungry).await, 0);
}

#[tokio::test]
async fn a_blocked_application_runtime_loses_no_lock_on_sqlite() {
    block(Scene::on_sqlite(INSTANCE), false).await;
}

#[cfg_attr(feature = "soak", tokio::test)]
async fn a_blocked_application_runtime_loses_no_lock_on_redis() {
    let server = redis();
    block(on_redis(&server), false).await;
}

#[cfg_attr(feature = "soak", tokio::test)]
async fn a_blocked_current_thread_runtime_loses_no_lock_on_sqlite() {
    block(Scene::on_sqlite(INSTANCE), true).await;
}

#[tokio::test]
async fn a_blocked_current_thread_runtime_loses_no_lock_on_redis() {
    let server = redis();
    block(on_redis(&server), true).await;
}

/// Stops the process, but not within a write to an `SQLite` file: that would keep everybody from
/// writing.
async fn stop(scene: &Scene, instance: &Instance) {
    until("a moment without a write", || async {
        instance.signal("STOP");
        if scene.database().exists() {
            let file = rusqlite::Connection::open(scene.database()).unwrap();
            file.busy_timeout(Duration::ZERO).unwrap();
            if file.execute_batch("BEGIN IMMEDIATE; ROLLBACK").is_err() {
                instance.signal("CONT");
                return None;
            }
        }
        Some(())
    })
    .await;
}

fn is_running(info: &TaskInfo, attempt: u32) -> bool {
    info.state == TaskState::Running && info.attempt == attempt
}

/// A process sleeps through the end of its locks; when it wakes, all its tasks have a new holder.
async fn oversleep(mut scene: Scene) {
    let service = scene.service().await;
    let mut sleeper = scene.start(&plan_of(&scene, WIDE, SHORT)).await;
    // One would end the task otherwise than its new holder, one wakes up when its work is long
    // over.
    Chore::UntilTold(Outcome::Dead)
        .send(&service, "told", Duration::ZERO)
        .await;
    Chore::Work(5_400)
        .send(&service, "over", Duration::ZERO)
        .await;
    sleeper.started(2).await;
    stop(&scene, &sleeper).await;
    let stopped = SystemClock.now();
    let name = sleeper.name.clone();
    scene.note(Fault::Stopped { name });
    let plan = Plan {
        grace_ms: Some(0),
        ..plan_of(&scene, WIDE, SHORT)
    };
    let mut heir = scene.start(&plan).await;
    let taken = heir.started(2).await;
    let wait = scene.between(stopped.as_millis(), taken.at);
    println!("taken over after {wait:?}");
    assert!(wait <= SHORT + seconds(1), "{wait:?}");
    sleeper.signal("CONT");
    sleeper.nth("the end of a worker", 2, What::is_end).await;
    assert_eq!(
        terminate(&mut sleeper).await,
        2,
        "it knows that it has lost both"
    );
    // It has tried to settle, and gone; the tasks still belong to their new holder.
    let told = info(&service, "told").await;
    assert!(is_running(&told, 2), "{told:?}");
    let over = reaches(&service, "over", TaskState::Done).await;
    assert_eq!(over.attempt, 2);
    assert_eq!(terminate(&mut heir).await, 0);
    let told = info(&service, "told").await;
    assert_eq!((told.state, told.attempt), (TaskState::Dead, 2));
    let history = scene.history();
    history.check_starts();
    let first = &history.attempts["job/told"][0];
    assert!(
        matches!(first.end, Some((_, Outcome::Dead, true))),
        "{first:?}"
    );
}

#[tokio::test]
async fn a_process_stopped_for_longer_than_its_locks_changes_nothing_when_it_wakes_on_sqlite() {
    oversleep(Scene::on_sqlite(INSTANCE)).await;
}

#[tokio::test]
async fn a_process_stopped_for_longer_than_its_locks_changes_nothing_when_it_wakes_on_redis() {
    let server = redis();
    oversleep(on_redis(&server)).await;
}

/// Workers that listen give their tasks back at once, those that do not lose them after a short
/// notice.
async fn hand_over(mut scene: Scene) {
    const HELD: usize = 20;
    let service = scene.service().await;
    let plan = Plan {
        grace_ms: Some(0),
        ..plan_of(&scene, WIDE, LONG)
    };
    let mut leaver = scene.start(&plan).await;
    for n in 0..HELD {
        let listens = Chore::UntilTold(Outcome::Release);
        listens
            .send(&service, &format!("listens-{n}"), Duration::ZERO)
            .await;
        Chore::Work(60_000)
            .send(&service, &format!("deaf-{n}"), Duration::ZERO)
            .await;
    }
    leaver.started(2 * HELD).await;
    let mut heir = scene.start(&plan_of(&scene, WIDE, LONG)).await;
    let signal = SystemClock.now();
    terminate(&mut leaver).await;
    let gone = SystemClock.now();
    heir.started(2 * HELD).await;
    let history = scene.history();
    let (mut listening, mut deaf) = (Duration::ZERO, Duration::ZERO);
    for (task, attempts) in &history.attempts {
        let next = &attempts[1];
        assert_eq!(next.attempt, 1, "{task} has burned an attempt");
        assert_eq!(attempts.len(), 2);
        if task.starts_with("job/listens") {
            listening = listening.max(scene.between(signal.as_millis(), next.at));
        } else {
            deaf = deaf.max(scene.between(gone.as_millis(), next.at));
        }
    }
    println!("listening {listening:?} after the signal, deaf {deaf:?} after the end");
    assert!(listening <= seconds(1) && deaf <= seconds(1));
    let id = service.find("job", "deaf-0").await.unwrap().unwrap();
    assert_eq!((id.history.releases, id.history.lock_expiries), (1, 0));
}

#[tokio::test]
async fn a_shutdown_without_grace_hands_over_within_a_second_and_burns_no_attempt_on_sqlite() {
    hand_over(Scene::on_sqlite(INSTANCE)).await;
}

#[tokio::test]
async fn a_shutdown_without_grace_hands_over_within_a_second_and_burns_no_attempt_on_redis() {
    let server = redis();
    hand_over(on_redis(&server)).await;
}

/// `run_until_signal` in the middle of a backlog: what runs is finished, the rest is left to the
/// other.
async fn leave(mut scene: Scene) {
    const TASKS: usize = 300;
    let service = scene.service().await;
    let mut leaver = scene.start(&plan_of(&scene, 8, LONG)).await;
    let mut stayer = scene.start(&plan_of(&scene, 8, LONG)).await;
    let job = |n: usize| Chore::Work(50).job("job").id(n.to_string());
    let results = service.send_all((0..TASKS).map(job).collect()).await;
    assert!(results.iter().all(Result::is_ok), "{results:?}");
    leaver.started(20).await;
    stayer.started(20).await;
    let signal = SystemClock.now();
    assert_eq!(terminate(&mut leaver).await, 0);
    let took = scene.between(signal.as_millis(), SystemClock.now().as_millis());
    assert!(took <= seconds(1), "{took:?}");
    scene.drained(&service).await;
    let history = scene.history();
    assert_eq!(history.attempts.len(), TASKS);
    assert_eq!(history.starts().count(), TASKS, "no task was started twice");
    let mut starts: Vec<_> = history.starts().map(|start| start.at).collect();
    starts.sort_unstable();
    let gap = starts
        .windows(2)
        .map(|pair| scene.between(pair[0], pair[1]))
        .max();
    println!("gone after {took:?}; the longest gap between two starts: {gap:?}");
    assert!(gap <= Some(seconds(1)), "{gap:?}");
    assert!(history.share_of(&leaver.name) < TASKS / 2);
}

#[tokio::test]
async fn a_terminated_instance_finishes_what_it_runs_and_leaves_the_rest_on_sqlite() {
    leave(Scene::on_sqlite(INSTANCE)).await;
}

#[tokio::test]
async fn a_terminated_instance_finishes_what_it_runs_and_leaves_the_rest_on_redis() {
    let server = redis();
    leave(on_redis(&server)).await;
}
