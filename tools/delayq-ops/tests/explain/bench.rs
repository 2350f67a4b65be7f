//! A service on a store, and an instance that claims by hand.

use std::sync::Arc;
use std::time::Duration;

use delayq_ops::{Explanation, explain};
use delayq_plugin::store::{
    AttemptEnd, Bucket, ClaimRequest, Figures, MemoryStore, Settlement, Spell, SqliteStore,
    StoreOptions,
};
use delayq_plugin::{
    Clock, DelayQueueJob, FleetLimits, InstanceId, InstanceInfo, Store, TaskSubmitService,
    TaskType, VirtualClock, minutes,
};

pub(crate) const TYPE: &str = "mail.send";

/// A service on a store, and one instance that claims by hand.
pub(crate) struct Bench {
    pub(crate) clock: VirtualClock,
    pub(crate) tasks: TaskSubmitService,
    pub(crate) worker: InstanceId,
}

impl Bench {
    pub(crate) fn new() -> Self {
        let clock = VirtualClock::default();
        let store = MemoryStore::new(Arc::new(clock.clone()), StoreOptions::default());
        Self::on(clock, Arc::new(store))
    }

    pub(crate) fn on(clock: VirtualClock, store: Arc<dyn Store>) -> Self {
        let tasks = TaskSubmitService::new(store).with_clock(Arc::new(clock.clone()));
        let worker = InstanceId::generate();
        Self {
            clock,
            tasks,
            worker,
        }
    }

    pub(crate) async fn announce(&self, types: &[&str]) {
        let types: Vec<_> = types
            .iter()
            .map(|name| TaskType::new(name).unwrap())
            .collect();
        let worker = InstanceInfo::new(self.worker.clone(), "shop-3", 17, self.clock.now());
        let store = self.tasks.store();
        store
            .announce(&worker.serving(&types), minutes(60))
            .await
            .unwrap();
    }

    pub(crate) async fn send(&self, id: &str, delay: Duration) {
        let job = DelayQueueJob::raw(TYPE, "hi").id(id).after(delay);
        self.tasks.send(job).await.unwrap();
    }

    /// Claims up to `limit` tasks for ten minutes.
    pub(crate) async fn claim(&self, limit: usize, fleet: FleetLimits) -> Vec<delayq_plugin::Lock> {
        let mut request = ClaimRequest::new(limit, minutes(10), self.clock.now());
        request.fleet = fleet;
        request.holder = Some(self.worker.clone());
        let claimed = self.tasks.store().claim(&bucket(), &request).await.unwrap();
        claimed.tasks.into_iter().map(|task| task.lock).collect()
    }

    pub(crate) async fn settle(&self, lock: delayq_plugin::Lock, end: AttemptEnd) {
        let settlements = vec![Settlement::new(lock, end)];
        self.tasks
            .store()
            .settle(&bucket(), settlements)
            .await
            .unwrap();
    }

    /// So many tasks were done, so long ago.
    pub(crate) async fn figures(&self, ago: Duration, done: u64) {
        let mut figures = Figures::default();
        figures.done = done;
        let at = self.clock.now().minus(ago);
        let task_type = TaskType::new(TYPE).unwrap();
        let store = self.tasks.store();
        let minute = [Spell { at, figures }];
        let added = store.add_figures(&task_type, &minute);
        added.await.unwrap();
    }

    pub(crate) async fn explain(&self, id: &str) -> Explanation {
        explain(&self.tasks, TYPE, id).await.unwrap()
    }
}

pub(crate) fn bucket() -> Bucket {
    Bucket::whole(TaskType::new(TYPE).unwrap())
}

pub(crate) fn retry(after: Duration) -> AttemptEnd {
    AttemptEnd::Retry {
        after,
        error: "no van.\nsorry".to_owned(),
        succeeded: Vec::new(),
    }
}

pub(crate) async fn sqlite(clock: &VirtualClock) -> (tempfile::TempDir, Arc<dyn Store>) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tasks.sqlite");
    let clock = Arc::new(clock.clone());
    let store = SqliteStore::open(&path, clock, StoreOptions::default());
    (folder, store.await.unwrap())
}
