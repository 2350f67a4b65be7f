use std::sync::Arc;

use delayq_core::store::SubmitOutcome;
use delayq_core::{DelayQueueJob, TaskState, VirtualClock, hours, millis, seconds};

use super::{Scene, memory};
use crate::{Clock, ClockSkew, TaskSubmitService};

/// Found by a hostile walk: a delay that was sent while the store's clock was an hour behind was
/// over at once when that was set right, and nothing had told.
#[tokio::test]
async fn a_receipt_tells_of_clocks_that_differ_in_both_directions() {
    for (ahead, behind, expected) in [
        (hours(0), hours(1), Some(ClockSkew::StoreBehind(hours(1)))),
        (hours(1), hours(0), Some(ClockSkew::StoreAhead(hours(1)))),
        (millis(500), millis(0), None),
        (millis(0), millis(500), None),
    ] {
        let (host, store_clock) = (VirtualClock::default(), VirtualClock::default());
        store_clock.set(host.now().plus(ahead).minus(behind));
        let tasks = TaskSubmitService::new(memory(&store_clock)).with_clock(Arc::new(host.clone()));
        let delayed = DelayQueueJob::raw("job", "x").after(seconds(10));
        let receipt = tasks.send(delayed).await.unwrap();
        assert_eq!(receipt.clock_skew, expected);
        let timed = DelayQueueJob::raw("job", "x").at(host.now().plus(seconds(10)));
        let receipt = tasks.send(timed).await.unwrap();
        assert_eq!(receipt.clock_skew, None, "its due time shows no clock");
    }
}

/// A task at its longest wait is due earlier than its delay says.
#[tokio::test]
async fn a_receipt_of_a_debounced_task_tells_of_no_clock() {
    let clock = VirtualClock::default();
    let tasks = TaskSubmitService::new(memory(&clock)).with_clock(Arc::new(clock.clone()));
    let job = DelayQueueJob::raw("job", "x").id("doc");
    let job = job.debounce("10s", "10s");
    let first = tasks.send(job.clone()).await.unwrap();
    clock.advance(seconds(5));
    let second = tasks.send(job).await.unwrap();
    assert_eq!(second.due_at(), first.due_at());
    assert_eq!(second.clock_skew, None);
}

#[tokio::test]
async fn a_throttled_job_is_one_task_in_each_window_of_the_senders_clock() {
    let (host, store_clock) = (VirtualClock::default(), VirtualClock::default());
    let tasks = TaskSubmitService::new(memory(&store_clock)).with_clock(Arc::new(host.clone()));
    let send = async |message: &str| {
        let job = DelayQueueJob::raw("job", message).id("doc").throttle("1m");
        tasks.send(job).await.unwrap()
    };
    let first = send("1").await;
    let state = TaskState::Scheduled;
    let kept = send("2").await;
    assert_eq!(kept.outcome, SubmitOutcome::AlreadyExists { state });
    assert_eq!(kept.id, first.id);
    host.advance(seconds(60));
    let next = send("3").await;
    assert_eq!(
        next.due_at(),
        first.due_at().map(|due| due.plus(seconds(60)))
    );
    let task = tasks.find("job", first.id.as_str()).await.unwrap().unwrap();
    assert_eq!(task.message.as_deref(), Some(&b"1"[..]));
}

#[tokio::test]
async fn health_tells_of_a_store_clock_that_is_behind() {
    let (host, store_clock) = (VirtualClock::default(), VirtualClock::default());
    let store = memory(&store_clock);
    let scene = Scene::start(&store, &host).await;
    scene.poll(&host).await;
    let health = scene.plugin.health().await;
    assert_eq!(
        health.handlers[0].clock_skew,
        Some(ClockSkew::StoreBehind(seconds(1)))
    );
    assert!(!health.is_ok());
    store_clock.set(host.now().plus(seconds(1)));
    scene.poll(&host).await;
    let health = scene.plugin.health().await;
    assert_eq!(health.handlers[0].clock_skew, None);
    assert!(health.is_ok());
}

/// A store in a file uses the clock of the process that calls it, so that only its fences tell.
#[cfg(feature = "sqlite")]
#[tokio::test]
async fn health_tells_that_the_clock_of_this_process_is_behind_that_of_another_on_one_file() {
    use crate::store::{SqliteStore, SqliteSync, StoreOptions};
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tasks.sqlite");
    let open = async |clock: &VirtualClock| {
        let (clock, options) = (Arc::new(clock.clone()), StoreOptions::default());
        let store = SqliteStore::open_with(&path, clock, options, SqliteSync::Normal);
        let store: Arc<dyn crate::Store> = store.await.unwrap();
        store
    };
    let (right, behind) = (VirtualClock::default(), VirtualClock::default());
    behind.set(right.now().minus(seconds(10)));
    let mut other = Scene::start(&open(&right).await, &right).await;
    let tasks = other.plugin.submit_service();
    tasks.send(DelayQueueJob::raw("job", "x")).await.unwrap();
    assert_eq!(other.starts.recv().await, Some(1));
    let scene = Scene::start(&open(&behind).await, &behind).await;
    scene.poll(&behind).await;
    let health = scene.plugin.health().await;
    let Some(ClockSkew::FencesAhead(ahead)) = health.handlers[0].clock_skew else {
        panic!("{health:?}")
    };
    assert!(ahead > seconds(8), "{ahead:?}");
    assert!(!health.is_ok());
}
