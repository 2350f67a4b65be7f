//! Crashes: SIGKILL of instances and of the Redis server, at any moment, and what may not be lost.

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

use delayq_plugin::{Clock, SystemClock, TaskState, TaskSubmitService};
use delayq_tests::instance::log::What;
use delayq_tests::instance::plan::{Chore, Load, Outcome, Plan, Served};
use delayq_tests::instance::scene::{Fault, Scene, check_file};
use delayq_tests::redis_server::{Persistence, RedisServer};
use delayq_tests::rig::until;

const INSTANCE: &str = env!("CARGO_BIN_EXE_instance");
/// The lock time of these tests, unless they say otherwise.
const LOCK: Duration = Duration::from_secs(1);
/// The lock time where many processes are under load: none loses a lock because a busy machine
/// leaves it a processor, or its store the disk, for a part of the time only.
const LONG_LOCK: Duration = Duration::from_secs(4);
/// What the promise adds to the lock time.
const GRACE: Duration = Duration::from_secs(1);
/// Kills of one test.
const ROUNDS: usize = if cfg!(feature = "soak") { 24 } else { 6 };
/// Lives of one database file.
const LIVES: usize = if cfg!(feature = "soak") { 100 } else { 15 };

/// Two instances send and work. Again and again one of them, after some more starts or
/// acknowledgements of its own, is killed and another one takes its place. Returns once all that
/// was sent has ended.
async fn kill_again_and_again(
    scene: &mut Scene,
    rounds: usize,
    plan: impl Fn(&Scene) -> Plan,
) -> TaskSubmitService {
    let mut dice = fastrand::Rng::with_seed(scene.seed());
    let mut alive = Vec::new();
    for _ in 0..2 {
        alive.push(scene.start(&plan(scene)).await);
    }
    for _ in 0..rounds {
        let mut victim = alive.swap_remove(dice.usize(..alive.len()));
        let is_meant = if dice.bool() {
            What::is_sent
        } else {
            What::is_start
        };
        let more = victim.count(is_meant) + dice.usize(1..100);
        victim.nth("an event", more, is_meant).await;
        scene.kill(victim);
        // Now and then all of them at once.
        if dice.u32(0..4) == 0 {
            for other in alive.drain(..) {
                scene.kill(other);
            }
        }
        while alive.len() < 2 {
            alive.push(scene.start(&plan(scene)).await);
        }
    }
    for instance in &mut alive {
        instance.quiet().await;
    }
    let service = scene.service().await;
    scene.drained(&service).await;
    service
}

async fn lose_nothing(mut scene: Scene) {
    let served = |task_type| Served {
        lock_ms: u64::try_from(LONG_LOCK.as_millis()).unwrap(),
        ..Served::new(task_type)
    };
    let plan = |scene: &Scene| Plan {
        load: Some(Load::of(&["a", "b"])),
        served: ["a", "b"].map(served).into(),
        ..scene.plan([])
    };
    let service = kill_again_and_again(&mut scene, ROUNDS, plan).await;
    let history = scene.history();
    history.check_starts();
    let done = history.check_done(&service).await;
    let slowest = history.slowest_takeover();
    assert!(history.refused.is_empty(), "{:?}", history.refused.first());
    assert!(slowest <= Some(LONG_LOCK + GRACE), "{slowest:?}");
    let repeats = history.starts().filter(|start| start.attempt > 1).count();
    println!("{done} accepted and done, {repeats} repeats, slowest take-over {slowest:?}");
}

#[tokio::test]
async fn instances_killed_again_and_again_lose_nothing_on_sqlite() {
    lose_nothing(Scene::on_sqlite(INSTANCE)).await;
}

#[tokio::test]
async fn instances_killed_again_and_again_lose_nothing_on_redis_that_syncs_always() {
    let server = RedisServer::start(Persistence::Always, &[]);
    lose_nothing(Scene::on(INSTANCE, server.url())).await;
}

#[tokio::test]
async fn instances_killed_again_and_again_lose_nothing_on_redis_that_packs_every_task() {
    let server = RedisServer::start(Persistence::EverySecond, &[]);
    let url = format!("{}?pack=all", server.url());
    lose_nothing(Scene::on(INSTANCE, url)).await;
}

/// What the server syncs makes a difference when it dies, which it does not here.
#[cfg_attr(feature = "soak", tokio::test)]
async fn instances_killed_again_and_again_lose_nothing_on_redis_that_syncs_every_second() {
    let server = RedisServer::start(Persistence::EverySecond, &[]);
    lose_nothing(Scene::on(INSTANCE, server.url())).await;
}

/// What is settled before it starts may be cut off, but nothing runs twice, whoever is killed when.
async fn repeat_nothing(mut scene: Scene) {
    let plan = |scene: &Scene| Plan {
        load: Some(Load::of(&["job"])),
        served: vec![Served {
            at_most_once: true,
            ..Served::new("job")
        }],
        ..scene.plan([])
    };
    let service = kill_again_and_again(&mut scene, ROUNDS, plan).await;
    let history = scene.history();
    for (task, attempts) in &history.attempts {
        assert_eq!(attempts.len(), 1, "{task}: {attempts:#?}");
    }
    history.check_starts();
    for task in history.accepted.keys() {
        let (task_type, id) = task.split_once('/').unwrap();
        let found = service.find(task_type, id).await.unwrap().unwrap();
        assert_eq!(found.state, TaskState::Done, "{found:?}");
    }
    let (accepted, started) = (history.accepted.len(), history.attempts.len());
    println!("{accepted} accepted, {started} started, none twice");
    assert!(started > accepted / 2);
}

#[tokio::test]
async fn at_most_once_tasks_of_killed_instances_never_run_twice_on_sqlite() {
    repeat_nothing(Scene::on_sqlite(INSTANCE)).await;
}

#[tokio::test]
async fn at_most_once_tasks_of_killed_instances_never_run_twice_on_redis() {
    let server = RedisServer::start(Persistence::EverySecond, &[]);
    repeat_nothing(Scene::on(INSTANCE, server.url())).await;
}

/// Tasks that end whatever process runs them, among harmless ones that run beside them.
async fn poison(mut scene: Scene) {
    const POISON: usize = 3;
    const HARMLESS: usize = 40;
    /// Each life ends by a task, or brings the rest to an end.
    const MOST_LIVES: usize = 20;
    let service = scene.service().await;
    let send = async |chore: Chore, name: &str, count: usize| {
        for n in 0..count {
            chore
                .send(&service, &format!("{name}-{n}"), Duration::ZERO)
                .await;
        }
    };
    send(Chore::Work(50), "before", HARMLESS).await;
    send(Chore::Abort, "poison", POISON).await;
    send(Chore::Work(50), "after", HARMLESS).await;
    // A harmless task that paid for the crashes beside it would not survive two of them.
    let served = Served {
        max_attempts: 2,
        ..Served::new("job")
    };
    let mut crashes = 0;
    loop {
        let plan = Plan {
            max_lock_expiries: 2,
            served: vec![served.clone()],
            ..scene.plan([])
        };
        let mut instance = scene.spawn(&plan);
        tokio::select! {
            status = instance.ended() => assert!(!status.success(), "{status}"),
            () = scene.drained(&service) => break,
        }
        let name = instance.name.clone();
        scene.note(Fault::Crashed { name });
        crashes += 1;
        assert!(crashes < MOST_LIVES);
    }
    println!("{crashes} crashes");
    let history = scene.history();
    history.check_starts();
    let page = service
        .list("job", TaskState::Dead, None, 100)
        .await
        .unwrap();
    let dead: Vec<_> = page.tasks.iter().map(|task| task.id.as_str()).collect();
    assert_eq!(dead.len(), POISON, "{dead:?}");
    for task in &page.tasks {
        let error = task.history.last_error.as_deref().unwrap();
        assert!(
            task.id.as_str().starts_with("poison") && error.contains("ran alone"),
            "{task:?}"
        );
        assert!(!history.attempts[&format!("job/{}", task.id)].is_empty());
    }
    let ended = ["before", "after"].map(|name| (0..HARMLESS).map(move |n| format!("{name}-{n}")));
    for id in ended.into_iter().flatten() {
        let info = service.find("job", &id).await.unwrap().unwrap();
        assert_eq!(info.state, TaskState::Done, "{info:?}");
    }
}

#[tokio::test]
async fn a_task_that_kills_its_process_goes_to_dead_and_takes_nobody_with_it_on_sqlite() {
    poison(Scene::on_sqlite(INSTANCE)).await;
}

#[tokio::test]
async fn a_task_that_kills_its_process_goes_to_dead_and_takes_nobody_with_it_on_redis() {
    let server = RedisServer::start(Persistence::EverySecond, &[]);
    poison(Scene::on(INSTANCE, server.url())).await;
}

/// One instance holds tasks and is killed while the other one is idle.
async fn take_over(mut scene: Scene) {
    const HELD: usize = 50;
    let service = scene.service().await;
    let mut holder = scene.start(&scene.plan(["job"])).await;
    for n in 0..HELD {
        Chore::UntilTold(Outcome::Dead)
            .send(&service, &n.to_string(), Duration::ZERO)
            .await;
    }
    holder.started(HELD).await;
    // Longer than a lock: those that are held now have been extended.
    Chore::Work(1_500)
        .send(&service, "long", Duration::ZERO)
        .await;
    holder
        .nth("the end of the long task", 1, What::is_end)
        .await;
    let mut heir = scene.start(&scene.plan(["job"])).await;
    assert_eq!(heir.count(What::is_start), 0);
    let killed = scene.kill(holder);
    let last = heir.started(HELD).await;
    let wait = scene.between(killed.as_millis(), last.at);
    println!("the last of {HELD} tasks was taken over after {wait:?}");
    assert!(wait <= LOCK + GRACE, "{wait:?}");
    for start in scene
        .history()
        .starts()
        .filter(|start| start.name == heir.name)
    {
        assert_eq!(start.attempt, 2, "{start:?}");
    }
    scene.history().check_starts();
}

#[tokio::test]
async fn the_tasks_of_a_killed_holder_start_elsewhere_within_lock_time_and_a_second_on_sqlite() {
    take_over(Scene::on_sqlite(INSTANCE)).await;
}

#[tokio::test]
async fn the_tasks_of_a_killed_holder_start_elsewhere_within_lock_time_and_a_second_on_redis() {
    let server = RedisServer::start(Persistence::EverySecond, &[]);
    take_over(Scene::on(INSTANCE, server.url())).await;
}

/// A type made at run time, served by a pattern only, and a process killed before its tasks are
/// due.
async fn restart(mut scene: Scene) {
    let types = ["report.daily", "report.2024-05", "report.daily.eu"];
    let sender = Plan {
        load: Some(Load {
            max_delay_ms: 100,
            ..Load::of(&types)
        }),
        // Sends, and serves another type.
        ..scene.plan(["other"])
    };
    let mut first = scene.start(&sender).await;
    first.nth("an acknowledgement", 30, What::is_sent).await;
    scene.kill(first);
    let sent = scene.history().accepted;
    let last_due = sent
        .values()
        .map(|accepted| accepted.not_before)
        .max()
        .unwrap();
    until("the last due time", || {
        std::future::ready((SystemClock.now().as_millis() > last_due).then_some(()))
    })
    .await;
    let mut second = scene.start(&scene.plan(["report.*"])).await;
    let up = second.nth("the start", 1, What::is_up).await;
    let last = second.started(sent.len()).await;
    let service = scene.service().await;
    scene.drained(&service).await;
    let history = scene.history();
    history.check_starts();
    history.check_done(&service).await;
    for task_type in types {
        assert!(
            history
                .attempts
                .keys()
                .any(|task| task.starts_with(&format!("{task_type}/")))
        );
    }
    let took = scene.between(up.at, last.at);
    assert!(took <= GRACE, "{} overdue tasks took {took:?}", sent.len());
}

#[tokio::test]
async fn overdue_tasks_of_types_made_at_run_time_are_delivered_after_a_crash_on_sqlite() {
    restart(Scene::on_sqlite(INSTANCE)).await;
}

#[tokio::test]
async fn overdue_tasks_of_types_made_at_run_time_are_delivered_after_a_crash_on_redis() {
    let server = RedisServer::start(Persistence::EverySecond, &[]);
    restart(Scene::on(INSTANCE, server.url())).await;
}

/// Each life ends in the middle of a write, or nearly so: writes never pause.
#[tokio::test]
async fn an_sqlite_file_whose_writers_are_killed_many_times_stays_whole() {
    let mut scene = Scene::on_sqlite(INSTANCE);
    let mut dice = fastrand::Rng::with_seed(scene.seed());
    for _ in 0..LIVES {
        let plan = Plan {
            load: Some(Load {
                senders: 8,
                pause_ms: 0,
                max_delay_ms: 0,
                ..Load::of(&["job"])
            }),
            ..scene.plan(["job"])
        };
        let mut writer = scene.start(&plan).await;
        writer
            .nth("an acknowledgement", dice.usize(1..60), What::is_sent)
            .await;
        scene.kill(writer);
        check_file(&scene.database());
    }
    let service = scene.service().await;
    for accepted in scene.history().accepted.keys() {
        let (task_type, id) = accepted.split_once('/').unwrap();
        let found = service.find(task_type, id).await.unwrap();
        assert!(found.is_some(), "{accepted} was accepted and is lost");
    }
    let audit = service.audit("job", false).await.unwrap();
    assert!(audit.problems.is_empty(), "{audit:?}");
    let _last = scene.start(&scene.plan(["job"])).await;
    scene.drained(&service).await;
    let history = scene.history();
    history.check_starts();
    println!("{} accepted and done", history.check_done(&service).await);
}
