//! Two memory stores, instances over them, and a worker that keeps a ledger.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use delayq_core::memory::MemoryStore;
use delayq_core::store::{
    AttemptEnd, Bucket, ClaimRequest, MAX_BATCH, Settlement, StoreOptions, SubmitOutcome,
};
use delayq_core::{
    Clock, NewTask, Store, SystemClock, TaskId, TaskType, Timestamp, When, millis, seconds,
};
use delayq_testing::{Crash, Fault, FaultyStore};
use delayq_tiered::{TierOptions, TieredStore};

pub(crate) const LEAD: Duration = millis(100);
pub(crate) const HORIZON: Duration = millis(400);
pub(crate) const LOCK: Duration = millis(200);
/// How late a late call is.
pub(crate) const LATE: Duration = millis(600);

pub(crate) fn task_type() -> TaskType {
    TaskType::new("job").unwrap()
}

pub(crate) fn id(id: &str) -> TaskId {
    TaskId::new(id).unwrap()
}

pub(crate) fn job(name: &str, when: When) -> NewTask {
    let mut task = NewTask::new(task_type(), id(name), b"message".to_vec());
    task.when = when;
    task
}

/// What happens to the calls of an instance: by its store (`hot`, `cold`) and the operation.
pub(crate) type Plan = Arc<dyn Fn(&'static str, &'static str) -> Fault + Send + Sync>;

pub(crate) fn no_fault() -> Plan {
    Arc::new(|_, _| Fault::None)
}

/// A plan that breaks one step at its `nth` call, and the calls of it so far.
pub(crate) fn broken(
    step: (&'static str, &'static str, Fault),
    nth: u32,
) -> (Plan, Arc<AtomicU32>) {
    let calls = Arc::new(AtomicU32::new(0));
    let count = Arc::clone(&calls);
    let plan = move |store: &str, call: &str| {
        if (store, call) == (step.0, step.1) && count.fetch_add(1, Ordering::Relaxed) == nth {
            return step.2;
        }
        Fault::None
    };
    (Arc::new(plan), calls)
}

/// The two stores, which outlive every instance.
pub(crate) struct Stage {
    pub(crate) hot: Arc<MemoryStore>,
    pub(crate) cold: Arc<MemoryStore>,
    options: StoreOptions,
}

/// One process.
pub(crate) struct Instance {
    pub(crate) store: Arc<TieredStore>,
    crashes: [Crash; 2],
}

impl Instance {
    pub(crate) fn has_crashed(&self) -> bool {
        self.crashes.iter().any(Crash::has_happened)
    }
}

impl Stage {
    pub(crate) fn new(options: &StoreOptions) -> Self {
        let memory = || Arc::new(MemoryStore::new(Arc::new(SystemClock), options.clone()));
        Self {
            hot: memory(),
            cold: memory(),
            options: options.clone(),
        }
    }

    fn over(&self, plan: &Plan) -> (TierOptions, [FaultyStore; 2]) {
        let faulty = |name: &'static str, store: &Arc<MemoryStore>| {
            let plan = Arc::clone(plan);
            let store = FaultyStore::new(store.clone(), move |call| plan(name, call));
            store.with_delay(Arc::new(SystemClock), LATE)
        };
        let options = TierOptions::new(HORIZON, &self.options);
        let options = options.for_tests(LEAD, LOCK, Arc::new(SystemClock));
        let stores = [faulty("hot", &self.hot), faulty("cold", &self.cold)];
        (options, stores)
    }

    /// An instance that moves tasks.
    pub(crate) fn instance(&self, plan: &Plan) -> Instance {
        let (options, [hot, cold]) = self.over(plan);
        let crashes = [hot.crash(), cold.crash()];
        let store = TieredStore::open(Arc::new(hot), Arc::new(cold), options).unwrap();
        Instance { store, crashes }
    }

    /// An instance that moves nothing.
    pub(crate) fn sender(&self) -> Arc<TieredStore> {
        self.sender_with(&no_fault())
    }

    /// The same, with faults.
    pub(crate) fn sender_with(&self, plan: &Plan) -> Arc<TieredStore> {
        let (options, [hot, cold]) = self.over(plan);
        let options = options.moving_nothing();
        TieredStore::open(Arc::new(hot), Arc::new(cold), options).unwrap()
    }
}

pub(crate) fn now() -> Timestamp {
    SystemClock.now()
}

pub(crate) async fn pause(span: Duration) {
    SystemClock.sleep_until(SystemClock.elapsed() + span).await;
}

/// Submits a task that has to be accepted; answers its due time.
pub(crate) async fn accept(store: &dyn Store, task: NewTask) -> Timestamp {
    let outcome = store.submit(vec![task]).await.remove(0);
    match outcome {
        Ok(SubmitOutcome::Accepted { due_at, .. }) => due_at,
        other => panic!("not accepted: {other:?}"),
    }
}

/// The starts of each task.
#[derive(Debug, Default)]
pub(crate) struct Ledger(pub(crate) BTreeMap<TaskId, Vec<Timestamp>>);

impl Ledger {
    /// Runs what is due in hot.
    pub(crate) async fn work(&mut self, hot: &dyn Store) {
        let request = ClaimRequest::new(MAX_BATCH, seconds(60), now());
        let bucket = Bucket::whole(task_type());
        let claimed = hot.claim(&bucket, &request).await.unwrap();
        let mut ends = Vec::new();
        for task in claimed.tasks {
            assert!(task.headers.is_empty(), "{:?}", task.headers);
            self.0.entry(task.lock.id.clone()).or_default().push(now());
            ends.push(Settlement::new(task.lock, AttemptEnd::Done));
        }
        hot.settle(&bucket, ends).await.unwrap();
    }

    /// Works until so many tasks have run.
    pub(crate) async fn work_until(&mut self, hot: &dyn Store, count: usize) {
        let end = SystemClock.elapsed() + seconds(60);
        while self.0.len() < count {
            assert!(SystemClock.elapsed() < end, "{} of {count}", self.0.len());
            self.work(hot).await;
            pause(millis(1)).await;
        }
    }

    /// Each task ran once, and not before its due time.
    pub(crate) fn check(&self, due: &BTreeMap<TaskId, Timestamp>) {
        for (id, due) in due {
            let starts = self.0.get(id).map_or(&[][..], Vec::as_slice);
            assert_eq!(starts.len(), 1, "{id} ran at {starts:?}");
            assert!(starts[0] >= *due, "{id}: due {due}, ran at {}", starts[0]);
        }
    }
}
