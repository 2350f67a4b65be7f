//! Playing one case and judging it.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use delayq_core::memory::MemoryStore;
use delayq_core::store::StoreOptions;
use delayq_plugin::{Clock, TaskType, seconds};
use delayq_tests::paused_clock::PausedClock;

use crate::scenarios::{LOCK, Scenario};
use crate::world::{Ground, Planned, TYPE, World, late};

/// What every promise adds to the lock time.
const GRACE: Duration = seconds(1);

/// What one case showed.
#[derive(Debug)]
pub(crate) struct Report {
    /// Calls made by each process until the task had come to its end.
    pub(crate) calls: Vec<usize>,
    /// How long it took, by the case's clock.
    pub(crate) took: Duration,
    pub(crate) starts: usize,
    pub(crate) lock_expiries: u32,
    /// Whether all planned faults happened: in real time, a process may be shut down before its
    /// call.
    pub(crate) all_fired: bool,
}

/// Plays a scenario on a new memory store in simulated time.
pub(crate) fn simulate(scenario: &Scenario, planned: &[Planned]) -> Report {
    fastrand::seed(7);
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_time().start_paused(true).build().unwrap();
    runtime.block_on(async {
        let clock: Arc<dyn Clock> = Arc::new(PausedClock::default());
        let store = MemoryStore::new(Arc::clone(&clock), StoreOptions::default());
        let ground = Ground {
            clock,
            store: Arc::new(store),
            simulated: true,
        };
        play(scenario, ground, planned).await
    })
}

/// Plays a scenario on `ground`, and judges it.
pub(crate) async fn play(scenario: &Scenario, ground: Ground, planned: &[Planned]) -> Report {
    let (clock, store) = (Arc::clone(&ground.clock), Arc::clone(&ground.store));
    let began = clock.elapsed();
    let mut world = World::new(ground, scenario.options, scenario.workers, planned);
    (scenario.play)(&mut world).await;
    let calls = world.calls.iter().map(|calls| calls.load(Ordering::SeqCst));
    let (calls, took) = (calls.collect(), clock.elapsed().saturating_sub(began));
    let end = world.state().await;
    // Also a fault that comes after the end must change nothing.
    world
        .until("the last fault", async |world| world.all_fired())
        .await;
    world.live().await;
    world.sleep(LOCK + GRACE).await;
    assert_eq!(world.state().await, end, "an end is an end");
    let audit = store
        .audit(&TaskType::new(TYPE).unwrap(), false)
        .await
        .unwrap();
    assert_eq!(audit.problems, [], "the audit is clean");
    let lock_expiries = world.ledger.lock_expiries();
    let log = world.ledger.log();
    assert!(log.broken.is_empty(), "{:#?}", log.broken);
    Report {
        calls,
        took,
        starts: log.starts.len(),
        lock_expiries,
        all_fired: (0..planned.len()).all(|process| world.has_fired(process)),
    }
}

/// How long a case may take, against the same scenario without a fault: each fault may cost a lock
/// time and a second, the time that a late call is late, and the work of an attempt that has to be
/// done again.
pub(crate) fn bound(faultless: &Report, faults: usize) -> Duration {
    let faults = u32::try_from(faults).unwrap();
    faultless.took + (LOCK + GRACE + late(LOCK)) * faults + faultless.took.min(seconds(6)) * faults
}
