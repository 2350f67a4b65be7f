//! Outages of the store: a server that dies, hangs, is full or takes no writes, and listeners that
//! are dropped.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "what a test must not do in silence, it does by panicking; it prints what it measured"
)]

mod disk;
mod postgres;
mod redis;

use std::time::Duration;

use delayq_plugin::{Clock, SystemClock, Timestamp};
use delayq_tests::instance::history::Attempt;
use delayq_tests::instance::log::What;
use delayq_tests::instance::plan::{Chore, Load, Plan};
use delayq_tests::instance::scene::{Fault, Scene};
use delayq_tests::rig::until;

const INSTANCE: &str = env!("CARGO_BIN_EXE_instance");
/// The lock time of all these tests.
const LOCK: Duration = Duration::from_secs(1);
/// What the promise adds to the lock time.
const GRACE: Duration = Duration::from_secs(1);
/// Outages of a server under load.
const OUTAGES: u32 = if cfg!(feature = "soak") { 5 } else { 2 };

/// What an outage is, and how it is noticed.
struct Outage<S> {
    rounds: u32,
    begin: fn(&mut S),
    end: fn(&mut S),
    is_noticed: fn(&What) -> bool,
}

/// Two instances under load, each with a type of its own beside the shared one, through some
/// outages. Work resumes in every handler of every instance.
async fn outages<S>(url: String, mut server: S, outage: Outage<S>) {
    let Outage {
        rounds,
        begin,
        end,
        is_noticed,
    } = outage;
    let mut scene = Scene::on(INSTANCE, url);
    let mut dice = fastrand::Rng::with_seed(scene.seed());
    let service = scene.service().await;
    let mut instances = Vec::new();
    for own in ["a", "b"] {
        let plan = Plan {
            load: Some(Load::of(&[own, "shared"])),
            ..scene.plan([own, "shared"])
        };
        instances.push(scene.start(&plan).await);
    }
    for round in 1..=rounds {
        let more = instances[0].count(What::is_sent) + dice.usize(100..400);
        instances[0]
            .nth("an acknowledgement", more, What::is_sent)
            .await;
        for (instance, own) in instances.iter_mut().zip(["a", "b"]) {
            // Running when the outage begins, and first to be told.
            let sign = Chore::Heed(2_500).job(own).id(format!("sign-{round}"));
            let task = format!("{own}/sign-{round}");
            service.send(sign).await.unwrap();
            let is_it = |what: &What| matches!(what, What::Start { task: t, .. } if *t == task);
            instance.nth("the start of the sign", 1, is_it).await;
        }
        let from = SystemClock.now();
        let before: Vec<_> = instances.iter_mut().map(|i| i.count(is_noticed)).collect();
        begin(&mut server);
        for (instance, before) in instances.iter_mut().zip(before) {
            instance
                .nth("a sign of the outage", before + 1, is_noticed)
                .await;
        }
        end(&mut server);
        let back = SystemClock.now();
        scene.note(Fault::Outage { from, to: back });
        for (index, task_type) in [(0, "a"), (1, "b"), (0, "shared"), (1, "shared")] {
            let wait = resumes(&scene, &instances[index].name, task_type, back).await;
            println!("round {round}: i{index} works on {task_type} again after {wait:?}");
            assert!(wait <= LOCK + GRACE, "{wait:?}");
        }
    }
    for instance in &mut instances {
        instance.quiet().await;
    }
    scene.drained(&service).await;
    let history = scene.history();
    history.check_starts();
    let done = history.check_done(&service).await;
    let is_foreign = |error: &str| !error.contains(" is read-only: ");
    let mut foreign = history.refused.iter();
    let foreign = foreign.find(|(_, error, transient)| !transient && is_foreign(error));
    assert_eq!(foreign, None, "every failure of an outage is transient");
    println!(
        "{done} accepted and done; {} submits failed",
        history.refused.len()
    );
}

/// How long after `back` the instance `name` starts a task of this type.
async fn resumes(scene: &Scene, name: &str, task_type: &str, back: Timestamp) -> Duration {
    let prefix = format!("{task_type}/");
    let what = format!("work of {name} on {task_type}");
    let first = until(&what, || {
        let meant = |task: &str, start: &Attempt| start.name == name && task.starts_with(&prefix);
        std::future::ready(scene.history().first_start_after(back, meant))
    })
    .await;
    scene.between(back.as_millis(), first)
}
