//! What became of tasks of a tier: also of those that are known nowhere.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};

use delayq_core::history::{EndPosition, Ends, EndsStatus, KeptMessage, LifeOutcome, WaitingEnd};
use delayq_core::memory::MemoryStore;
use delayq_core::operate::{Operate, TypeSettings};
use delayq_core::store::{
    AttemptEnd, Bucket, CancelOutcome, ClaimRequest, Settlement, StoreOptions,
};
use delayq_core::{
    Clock, DelayQueueJob, Error, Namespace, Result, Store, SystemClock, TaskType, hours, millis,
    seconds,
};
use delayq_plugin::TaskSubmitService;
use delayq_plugin::history::{HistoryStore, TaskHistory};
use delayq_tests::rig::until;
use delayq_tiered::{TierOptions, TieredStore};

const TYPE: &str = "job";

/// How the queue of records of a cold store fails, see [`Cold`].
const KEEPS: u8 = 0;
const IS_AWAY: u8 = 1;
const HAS_NONE: u8 = 2;

/// A cold store whose records of ends can be away, or are not kept.
#[derive(Debug)]
struct Cold {
    inner: Arc<MemoryStore>,
    queue: AtomicU8,
}

impl Cold {
    fn asked(&self) -> Result<()> {
        match self.queue.load(Ordering::Relaxed) {
            IS_AWAY => Err(Error::unavailable("cold", "it is away")),
            HAS_NONE => Err(Error::Unsupported("records of ends")),
            _ => Ok(()),
        }
    }
}

impl delayq_core::store::Layer for Cold {
    fn inner(&self) -> &dyn Store {
        &*self.inner
    }

    async fn ends(&self, limit: usize) -> Result<Vec<WaitingEnd>> {
        self.asked()?;
        self.inner.ends(limit).await
    }

    async fn remove_ends(&self, positions: &[EndPosition]) -> Result<u64> {
        self.asked()?;
        self.inner.remove_ends(positions).await
    }

    async fn ends_status(&self) -> Result<EndsStatus> {
        self.asked()?;
        self.inner.ends_status().await
    }
}

/// Ends what is due in the hot store.
async fn work(hot: &dyn Store, count: usize) {
    let bucket = Bucket::whole(TaskType::new(TYPE).unwrap());
    let done = AtomicUsize::new(0);
    until("the moved tasks", async || {
        let request = ClaimRequest::new(100, hours(1), SystemClock.now());
        let claimed = hot.claim(&bucket, &request).await.unwrap();
        done.fetch_add(claimed.tasks.len(), Ordering::Relaxed);
        let locks = claimed.tasks.into_iter().map(|task| task.lock);
        let ends = locks.map(|lock| Settlement::new(lock, AttemptEnd::Done));
        hot.settle(&bucket, ends.collect()).await.unwrap();
        (done.load(Ordering::Relaxed) == count).then_some(())
    })
    .await;
}

/// The outcomes of a task that is not forgotten, and of which nothing is left out.
async fn ends_of(history: &TaskHistory, id: &str) -> Vec<LifeOutcome> {
    let fate = history.what_became_of(TYPE, id).await.unwrap();
    assert_eq!((fate.unread, &fate.history_error), (0, &None), "{id}");
    fate.lives.iter().map(|life| life.outcome).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_task_that_is_known_nowhere_is_unknown_whatever_waits_in_the_cold_store() {
    let folder = tempfile::tempdir().unwrap();
    let stores = StoreOptions::default();
    let memory = || Arc::new(MemoryStore::new(Arc::new(SystemClock), stores.clone()));
    let (hot, inner) = (memory(), memory());
    let queue = AtomicU8::new(KEEPS);
    let cold = Arc::new(Cold { inner, queue });
    let options = TierOptions::new(millis(400), &stores);
    let options = options.for_tests(millis(100), seconds(10), Arc::new(SystemClock));
    let tier = TieredStore::open(hot.clone(), cold.clone(), options).unwrap();
    let task_type = TaskType::new(TYPE).unwrap();
    let settings = TypeSettings::default().history(Some(KeptMessage::Nothing));
    tier.configure_type(&task_type, &settings).await.unwrap();
    let place = format!("sqlite:{}", folder.path().join("history").display());
    let kept = HistoryStore::at(&place, Namespace::default(), seconds(5)).unwrap();
    let tasks = TaskSubmitService::new(tier.clone()).with_history(Arc::new(kept));
    let history = tasks.history().unwrap();
    // Cold has the records of an end and of moves, in this order and in the other one.
    let send = async |id: &str, after| {
        let job = DelayQueueJob::raw(TYPE, "m").id(id).after(after);
        tasks.send(job).await.unwrap();
    };
    let gone = async |id: &str| {
        send(id, hours(1)).await;
        let cancelled = tasks.cancel(TYPE, id).await;
        assert_eq!(cancelled, Ok(CancelOutcome::Cancelled));
    };
    gone("first").await;
    for id in ["a", "b", "c"] {
        send(id, millis(500)).await;
    }
    work(&*hot, 3).await;
    tier.has_moved_all().await.unwrap();
    gone("last").await;
    assert_eq!(cold.inner.ends_status().await.unwrap().waiting, 5);
    assert_eq!(hot.ends_status().await.unwrap().waiting, 3);

    let fate = history.what_became_of(TYPE, "unknown").await.unwrap();
    assert!(fate.is_unknown() && fate.unread == 0, "{fate:?}");
    for id in ["first", "last"] {
        assert_eq!(ends_of(&history, id).await, [LifeOutcome::Cancelled]);
    }
    assert_eq!(ends_of(&history, "a").await, [LifeOutcome::Done], "once");
    // Those of moves are no records that wait.
    send("d", millis(500)).await;
    work(&*hot, 1).await;
    tier.has_moved_all().await.unwrap();
    assert_eq!(tier.ends_status().await.unwrap().waiting, 4 + 2);
    assert_eq!(cold.inner.ends_status().await.unwrap().waiting, 2);

    // What hot and the history know is told without the records of cold.
    for queue in [IS_AWAY, HAS_NONE] {
        cold.queue.store(queue, Ordering::Relaxed);
        let fate = history.what_became_of(TYPE, "unknown").await.unwrap();
        assert!(fate.is_unknown() && fate.unread == 0, "{fate:?}");
        assert_eq!(ends_of(&history, "b").await, [LifeOutcome::Done]);
        assert_eq!(tier.ends_status().await.unwrap().waiting, 4);
    }
    tier.close().await;
}
