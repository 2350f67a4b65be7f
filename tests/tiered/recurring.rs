//! Recurring tasks whose occurrences wait in the cold store.

use std::sync::Arc;

use delayq_core::memory::MemoryStore;
use delayq_core::operate::Operate;
use delayq_core::store::StoreOptions;
use delayq_core::{TaskState, TaskType};
use delayq_plugin::{Recurring, Timestamp, WorkerOptions, hours, minutes, seconds};
use delayq_tests::rig::{Rig, until};
use delayq_tiered::{TierOptions, TieredStore};

/// 07:00 UTC, on a Tuesday.
const MORNING: i64 = 1_795_503_600_000;

/// Its submit time in the hot store is that of its move, which is after its time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_occurrence_that_is_moved_late_runs() {
    let mut rig = Rig::default();
    rig.clock.set(Timestamp::from_millis(MORNING));
    let clock = Arc::new(rig.clock.clone());
    let options = StoreOptions::default();
    let memory = || Arc::new(MemoryStore::new(clock.clone(), options.clone()));
    let (hot, cold) = (memory(), memory());
    let tier = TierOptions::new(hours(1), &options);
    let tier = tier.for_tests(minutes(1), seconds(10), clock.clone());
    rig.store = TieredStore::open(hot, cold.clone(), tier).unwrap();
    let worker = rig.worker(|_| async { Ok(()) });
    let builder = rig.builder().worker("job", WorkerOptions::DEFAULT, worker);
    let daily = Recurring::new("job", "0 9 * * *").unwrap();
    let _plugin = builder.recurring(daily).start().await.unwrap();
    let job = TaskType::new("job").unwrap();
    let scheduled = TaskState::Scheduled;
    until("an occurrence in the cold store", || async {
        let page = cold.list(&job, scheduled, None, 1).await.unwrap();
        page.tasks.into_iter().next()
    })
    .await;
    // Nobody moves it in time.
    rig.clock.advance(hours(3));
    let start = rig.next().await;
    assert_eq!(start.cx.id().as_str(), "@2026-11-24T09:00:00Z");
    assert!(start.cx.submitted_at() > Timestamp::from_millis(MORNING).plus(hours(2)));
}
