//! The promise as the README has it, in real time: with the default lock, a task whose process is
//! killed starts elsewhere within 31 s.

#![allow(
    clippy::unwrap_used,
    reason = "a test fails by a panic, also in its helpers"
)]

use std::time::Duration;

use delayq_plugin::WorkerOptions;
use delayq_tests::instance::log::What;
use delayq_tests::instance::plan::{Chore, Outcome, Plan, Served};
use delayq_tests::instance::scene::Scene;
use delayq_tests::redis_server::{Persistence, RedisServer};

const INSTANCE: &str = env!("CARGO_BIN_EXE_instance");
/// What the promise adds to the lock time.
const GRACE: Duration = Duration::from_secs(1);

async fn take_over(mut scene: Scene) {
    let lock = WorkerOptions::DEFAULT.lock;
    assert_eq!(lock + GRACE, Duration::from_secs(31));
    let plan = |scene: &Scene| Plan {
        served: vec![Served {
            lock_ms: u64::try_from(lock.as_millis()).unwrap(),
            ..Served::new("job")
        }],
        ..scene.plan([])
    };
    let service = scene.service().await;
    let mut holder = scene.start(&plan(&scene)).await;
    Chore::UntilTold(Outcome::Dead)
        .send(&service, "held", Duration::ZERO)
        .await;
    holder.started(1).await;
    let mut heir = scene.start(&plan(&scene)).await;
    let killed = scene.kill(holder);
    let started = async {
        let mut looks = tokio::time::interval(Duration::from_millis(20));
        while heir.count(What::is_start) == 0 {
            looks.tick().await;
        }
    };
    let far_too_long = lock * 4;
    tokio::time::timeout(far_too_long, started)
        .await
        .expect("it starts elsewhere");
    let start = heir.started(1).await;
    let wait = scene.between(killed.as_millis(), start.at);
    assert!(wait <= lock + GRACE, "{wait:?}");
    scene.history().check_starts();
}

#[tokio::test]
async fn by_default_a_killed_process_costs_its_tasks_31_seconds_on_sqlite() {
    take_over(Scene::on_sqlite(INSTANCE)).await;
}

#[tokio::test]
async fn by_default_a_killed_process_costs_its_tasks_31_seconds_on_redis() {
    let server = RedisServer::start(Persistence::EverySecond, &[]);
    take_over(Scene::on(INSTANCE, server.url())).await;
}
