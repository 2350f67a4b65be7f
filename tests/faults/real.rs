//! The same enumeration on real stores, in real time: many cases side by side, each with a store of
//! its own.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use delayq_core::store::StoreOptions;
use delayq_core::{Namespace, Store, SystemClock};
use delayq_plugin::{WorkerOptions, seconds};
use delayq_postgres::PostgresStore;
use delayq_redis::RedisStore;
use delayq_sqlite::SqliteStore;
use delayq_tests::postgres_server::PostgresServer;
use delayq_tests::redis_server::RedisServer;
use tokio::sync::Semaphore;
use tokio::task::{JoinSet, LocalSet};

use super::FAULTS;
use super::case::{Report, play};
use super::scenarios::{CANCEL_RUNNING, RETRY, SHUTDOWN, Scenario};
use super::world::{Ground, Planned};

/// Cases at a time: they mostly wait, for locks to expire and for waits to be over.
const AT_ONCE: usize = 64;
/// Far more than any case needs on a machine that has other things to do.
const PATIENCE: Duration = seconds(60);

/// How often a case is played for its fault to happen.
const TRIES: usize = 3;

const SCENARIOS: [Scenario; 3] = [
    in_a_hurry(&RETRY),
    in_a_hurry(&CANCEL_RUNNING),
    in_a_hurry(&SHUTDOWN),
];

const fn in_a_hurry(scenario: &Scenario) -> Scenario {
    let options = WorkerOptions {
        lock: seconds(1),
        ..scenario.options
    };
    Scenario {
        options,
        ..*scenario
    }
}

async fn run(scenario: &'static Scenario, store: Arc<dyn Store>, planned: &[Planned]) -> Report {
    let clock = Arc::new(SystemClock);
    let ground = Ground {
        clock,
        store: Arc::clone(&store),
        simulated: false,
    };
    let played = tokio::time::timeout(PATIENCE, play(scenario, ground, planned)).await;
    let Ok(report) = played else {
        panic!(
            "the scenario {:?} with {planned:?} has no end",
            scenario.name
        );
    };
    store.close().await;
    report
}

/// Each operation of each scenario with each outcome.
async fn enumerate<F>(open: impl Fn(String) -> F)
where
    F: Future<Output = Arc<dyn Store>> + 'static,
{
    let places = Arc::new(Semaphore::new(AT_ONCE));
    let mut cases = JoinSet::new();
    for (nth, scenario) in SCENARIOS.iter().enumerate() {
        let faultless = run(scenario, open(format!("{nth}")).await, &[]).await;
        let operations = faultless.calls[0];
        println!(
            "{}: {operations} operations, each with {} faults",
            scenario.name,
            FAULTS.len()
        );
        for call in 1..=operations {
            for (kind, fault) in FAULTS.into_iter().enumerate() {
                let places = Arc::clone(&places);
                let opening: [_; TRIES] =
                    std::array::from_fn(|again| open(format!("{nth}-{call}-{kind}-{again}")));
                cases.spawn_local(async move {
                    let _place = places.acquire_owned().await.unwrap();
                    (nth, meets(scenario, opening, (call, fault)).await)
                });
            }
        }
    }
    let count = cases.len();
    let mut missed = [0; SCENARIOS.len()];
    while let Some(case) = cases.join_next().await {
        let (nth, has_met) = case.unwrap();
        missed[nth] += usize::from(!has_met);
    }
    println!("{count} cases, of the scenarios {missed:?} without their fault");
    // The last call of a process that is shut down, with each fault.
    assert!(
        missed.iter().all(|missed| *missed <= FAULTS.len()),
        "too few cases met their fault: {missed:?}"
    );
}

/// Plays the case until its fault happens: a process that is slow may be shut down before it makes
/// that call.
async fn meets(
    scenario: &'static Scenario,
    opening: impl IntoIterator<Item = impl Future<Output = Arc<dyn Store>>>,
    planned: Planned,
) -> bool {
    let (call, fault) = planned;
    for store in opening {
        let report = run(scenario, store.await, &[planned]).await;
        if report.all_fired {
            println!("{}: {fault:?} at call {call}: kept", scenario.name);
            return true;
        }
        let (made, name) = (report.calls[0], scenario.name);
        println!("{name}: {fault:?} at call {call}: its process made {made} calls");
    }
    false
}

#[cfg_attr(feature = "soak", tokio::test)]
async fn every_fault_at_every_operation_on_sqlite() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_owned();
    let open = move |name| {
        let path = path.join(name);
        async move {
            let options = StoreOptions::default();
            let store = SqliteStore::open(path, Arc::new(SystemClock), options).await;
            store.unwrap() as Arc<dyn Store>
        }
    };
    Box::pin(LocalSet::new().run_until(enumerate(open))).await;
}

#[cfg_attr(feature = "soak", tokio::test)]
async fn every_fault_at_every_operation_on_redis() {
    let open = |name| async move {
        let namespace = Namespace::new(format!("faults-{name}")).unwrap();
        let options = StoreOptions {
            namespace,
            ..StoreOptions::default()
        };
        let store = RedisStore::connect(&RedisServer::shared().url(), options).await;
        store.unwrap() as Arc<dyn Store>
    };
    Box::pin(LocalSet::new().run_until(enumerate(open))).await;
}

#[cfg_attr(feature = "soak", tokio::test)]
async fn every_fault_at_every_operation_on_postgres() {
    let open = |name| async move {
        let namespace = Namespace::new(format!("faults-{name}")).unwrap();
        let options = StoreOptions {
            namespace,
            ..StoreOptions::default()
        };
        let url = format!("{}?connections=2", PostgresServer::shared().url());
        let store = PostgresStore::connect(&url, options).await;
        store.unwrap() as Arc<dyn Store>
    };
    Box::pin(LocalSet::new().run_until(enumerate(open))).await;
}
