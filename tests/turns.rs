//! What a handler makes of the news that another instance has taken what it waits for: on the memory store, in
//! simulated time.

#![allow(
    clippy::unwrap_used,
    reason = "what a test must not do in silence, it does by panicking"
)]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use delayq_core::store::{MemoryStore, StoreOptions, Taken, Wakeup};
use delayq_plugin::{
    Clock, DelayQueueJob, DelayQueuePlugin, FleetLimits, Store, TaskContext, TaskResult,
    TaskSubmitService, TaskType, TaskWorker, Timestamp, WorkerOptions, millis, seconds,
};
use delayq_tests::faulty::{Fault, FaultyStore, Seen};
use delayq_tests::paused_clock::PausedClock;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::sync::{Notify, broadcast};

const TYPE: &str = "job";
/// When the task is due that the handler waits for.
const DUE: Duration = millis(500);

/// Ends once it may.
struct Waiter(Arc<Notify>);

#[async_trait]
impl TaskWorker for Waiter {
    async fn invoke(&self, _message: &str, _cx: &TaskContext) -> TaskResult {
        self.0.notified().await;
        Ok(())
    }
}

/// A handler that has looked once, at the start.
struct Scene {
    start: Timestamp,
    /// When it claims.
    claims: UnboundedReceiver<Duration>,
    news: broadcast::Sender<Wakeup>,
    /// Whether its claims fail.
    is_broken: Arc<AtomicBool>,
    /// Lets its worker end.
    may_end: Arc<Notify>,
    _plugin: DelayQueuePlugin,
}

impl Scene {
    async fn begin() -> Self {
        Self::with(WorkerOptions::DEFAULT).await
    }

    async fn with(options: WorkerOptions) -> Self {
        let clock = PausedClock::default();
        let start = clock.now();
        let memory = MemoryStore::new(Arc::new(clock.clone()), StoreOptions::default());
        let (news, (tell, claims)) = (broadcast::Sender::new(16), unbounded_channel());
        let at = clock.clone();
        let (is_broken, may_end) = (Arc::new(AtomicBool::new(false)), Arc::new(Notify::new()));
        let fails = Arc::clone(&is_broken);
        let plan = move |edge: &str| {
            if edge == "claim" && fails.load(Ordering::Relaxed) {
                Fault::NotApplied
            } else {
                Fault::None
            }
        };
        let store = FaultyStore::new(Arc::new(memory), plan)
            .with_wakeups(news.clone())
            .with_witness(move |seen| {
                if let Seen::Claimed(_) = seen {
                    // The test may have ended already.
                    let _ = tell.send(at.elapsed());
                }
            });
        let store: Arc<dyn Store> = Arc::new(store);
        let tasks = TaskSubmitService::new(Arc::clone(&store));
        let job = DelayQueueJob::raw(TYPE, "").after(DUE);
        tasks.send(job).await.unwrap();
        let plugin = DelayQueuePlugin::builder()
            .without_registered_workers()
            .store(store)
            .clock(Arc::new(clock))
            .on_application_runtime()
            .worker(TYPE, options, Waiter(Arc::clone(&may_end)));
        let mut scene = Self {
            start,
            claims,
            news,
            is_broken,
            may_end,
            _plugin: plugin.start().await.unwrap(),
        };
        assert_eq!(scene.next_claim().await, Duration::ZERO);
        scene
    }

    async fn next_claim(&mut self) -> Duration {
        self.claims.recv().await.unwrap()
    }

    /// Calls it, which has heard of it a millisecond later.
    async fn call(&self) {
        let called = Wakeup::Type(TaskType::new(TYPE).unwrap());
        self.news.send(called).unwrap();
        tokio::time::sleep(millis(1)).await;
    }

    fn tell(&self, fence: u64, next_in: Option<Duration>, turn: Duration) {
        let taken = Taken {
            task_type: TaskType::new(TYPE).unwrap(),
            fence,
            next_due: next_in.map(|span| self.start.plus(span)),
            turn,
        };
        self.news.send(Wakeup::Taken(taken)).unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn who_hears_that_it_was_taken_comes_for_what_is_next_in_its_turn() {
    let mut scene = Scene::begin().await;
    scene.tell(1, Some(millis(700)), millis(4));
    assert_eq!(scene.next_claim().await, millis(704));
}

#[tokio::test(start_paused = true)]
async fn the_last_news_counts() {
    let mut scene = Scene::begin().await;
    scene.tell(1, Some(millis(700)), millis(4));
    scene.tell(2, Some(millis(300)), millis(2));
    assert_eq!(scene.next_claim().await, millis(302));
}

#[tokio::test(start_paused = true)]
async fn whatever_is_told_it_comes_a_poll_after_its_last_claim() {
    for next_in in [None, Some(seconds(60))] {
        let mut scene = Scene::begin().await;
        scene.tell(1, next_in, Duration::ZERO);
        assert_eq!(scene.next_claim().await, seconds(1));
    }
}

#[tokio::test(start_paused = true)]
async fn a_series_of_news_does_not_keep_it_from_coming_a_poll_after_its_last_claim() {
    let mut scene = Scene::begin().await;
    let mut news = tokio::time::interval(millis(300));
    for fence in 1..4 {
        news.tick().await;
        scene.tell(fence, Some(seconds(60)), Duration::ZERO);
    }
    assert_eq!(scene.next_claim().await, seconds(1));
}

#[tokio::test(start_paused = true)]
async fn a_full_handler_comes_at_once_for_what_it_was_called_for_whatever_is_told() {
    let one = WorkerOptions {
        concurrency: 1,
        ..WorkerOptions::DEFAULT
    };
    let mut scene = Scene::with(one).await;
    assert_eq!(scene.next_claim().await, DUE);
    scene.call().await;
    scene.tell(u64::MAX, Some(seconds(60)), Duration::ZERO);
    tokio::time::sleep(millis(1)).await;
    scene.may_end.notify_one();
    assert_eq!(scene.next_claim().await, DUE + millis(2));
}

#[tokio::test(start_paused = true)]
async fn while_its_claims_fail_it_heeds_no_news() {
    let mut scene = Scene::begin().await;
    scene.is_broken.store(true, Ordering::Relaxed);
    scene.call().await;
    scene.tell(1, Some(seconds(60)), Duration::ZERO);
    tokio::time::sleep(millis(1)).await;
    scene.is_broken.store(false, Ordering::Relaxed);
    assert!(scene.next_claim().await < DUE, "it tries again soon");
}

#[tokio::test(start_paused = true)]
async fn a_handler_with_limits_of_the_fleet_heeds_no_news() {
    let limited = WorkerOptions {
        fleet: FleetLimits {
            concurrency: Some(9),
            rate: None,
        },
        ..WorkerOptions::DEFAULT
    };
    let mut scene = Scene::with(limited).await;
    scene.tell(1, Some(seconds(60)), Duration::ZERO);
    assert_eq!(scene.next_claim().await, DUE);
}

#[tokio::test(start_paused = true)]
async fn news_that_is_older_than_the_last_claim_changes_nothing() {
    let mut scene = Scene::begin().await;
    scene.tell(0, Some(millis(700)), Duration::ZERO);
    assert_eq!(scene.next_claim().await, DUE);
}
