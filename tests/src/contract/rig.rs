//! A store under test, and short verbs to drive it with.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use delayq_core::store::{
    AttemptEnd, CancelOutcome, ChangeOutcome, ClaimRequest, Claimed, DeadFilter, ExtendOutcome,
    MAX_BATCH, SettleOutcome, Settlement, StoreOptions, SubmitOutcome,
};
use delayq_core::{
    ClaimedTask, DelayQueueJob, FleetLimits, Limits, Lock, Namespace, NewTask, Store, TaskId,
    TaskInfo, TaskState, TaskType, Timestamp, When, hours, millis,
};

use super::StoreUnderTest;

/// The type of a test's tasks, unless it says otherwise. The namespace is the test's own.
pub(super) const TYPE: &str = "order.cancel";
/// A time that passes in every test that waits for it: stores on a real clock wait this long.
pub(super) const SHORT: Duration = millis(20);
/// A time that never passes in a test, however slow the machine.
pub(super) const LONG: Duration = hours(1);
/// How many lock expiries a task survives unless the test is about them.
const MANY: u32 = 1_000;

/// A store under test with a namespace of its own, and short verbs to drive it.
pub struct Rig {
    harness: Arc<dyn StoreUnderTest>,
    options: StoreOptions,
    store: Arc<dyn Store>,
}

impl fmt::Debug for Rig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rig")
            .field("store", &self.store)
            .finish_non_exhaustive()
    }
}

/// A job of the usual type, due now.
pub(super) fn job(id: &str) -> DelayQueueJob {
    DelayQueueJob::raw(TYPE, "message").id(id)
}

pub(super) fn id(id: &str) -> TaskId {
    TaskId::new(id).unwrap()
}

pub(super) fn usual_type() -> TaskType {
    TaskType::new(TYPE).unwrap()
}

pub(super) fn ids<'a>(ids: impl IntoIterator<Item = &'a TaskId>) -> Vec<&'a str> {
    ids.into_iter().map(TaskId::as_str).collect()
}

pub(super) fn claimed_ids(claimed: &Claimed) -> Vec<&str> {
    ids(claimed.tasks.iter().map(|task| &task.lock.id))
}

/// When the store answered, in microseconds.
pub(super) fn micros(claimed: &Claimed) -> i64 {
    let part = i64::from(claimed.past.subsec_micros());
    claimed.store_now.as_millis() * 1_000 + part
}

/// A failed attempt to be repeated after `after`.
pub(super) fn retry(after: Duration) -> AttemptEnd {
    AttemptEnd::Retry {
        after,
        error: "the shop is closed".to_owned(),
        succeeded: Vec::new(),
    }
}

pub(super) fn release(after: Duration) -> AttemptEnd {
    AttemptEnd::Release {
        after,
        succeeded: Vec::new(),
    }
}

pub(super) fn dead(error: &str) -> AttemptEnd {
    AttemptEnd::Dead {
        error: error.to_owned(),
        succeeded: Vec::new(),
    }
}

/// Every way in which an attempt can end.
pub(super) fn every_end() -> [AttemptEnd; 5] {
    [
        AttemptEnd::Done,
        retry(LONG),
        release(LONG),
        dead("no such order"),
        AttemptEnd::Expired,
    ]
}

impl Rig {
    /// Opens the harness' store in a namespace that no other test uses.
    pub async fn open(harness: impl StoreUnderTest) -> Self {
        Self::with(Arc::new(harness), StoreOptions::default().retention).await
    }

    /// The same place in yet another namespace, with this retention.
    pub(super) async fn with_retention(&self, retention: Duration) -> Self {
        Self::with(self.harness.clone(), retention).await
    }

    async fn with(harness: Arc<dyn StoreUnderTest>, retention: Duration) -> Self {
        let options = StoreOptions {
            namespace: Namespace::new(TaskId::generate().as_str()).unwrap(),
            retention,
            ..StoreOptions::default()
        };
        let store = harness.open(options.clone()).await;
        Self {
            harness,
            options,
            store,
        }
    }

    /// Another store on the same data, as another process would open it.
    pub(super) async fn open_again(&self) -> Self {
        Self {
            harness: self.harness.clone(),
            options: self.options.clone(),
            store: self.harness.open(self.options.clone()).await,
        }
    }

    /// Whether a claim is a step for each of several partitions.
    pub(super) fn is_split(&self) -> bool {
        self.harness.is_split()
    }

    pub(super) fn options(&self) -> &StoreOptions {
        &self.options
    }

    pub(super) fn store(&self) -> &dyn Store {
        self.store.as_ref()
    }

    /// What every test ends with: the structure of every type is intact.
    pub async fn finish(self) {
        for task_type in self.store.types().await.unwrap() {
            let report = self.store.audit(&task_type, false).await.unwrap();
            assert_eq!(report.problems, [], "audit of {task_type}");
        }
    }

    /// The store's clock.
    pub(super) async fn now(&self) -> Timestamp {
        self.store.stats(&usual_type()).await.unwrap().now
    }

    /// Returns once `span` has passed on the store's clock.
    pub(super) async fn pass(&self, span: Duration) {
        self.reach(self.now().await.plus(span)).await;
    }

    /// Returns once the store's clock shows `time` or later.
    pub(super) async fn reach(&self, time: Timestamp) {
        loop {
            let now = self.now().await;
            if now >= time {
                return;
            }
            self.harness.advance(time.since(now)).await;
        }
    }

    pub(super) async fn task(&self, job: DelayQueueJob) -> NewTask {
        let limits = Limits {
            max_message_bytes: usize::MAX,
            ..Limits::default()
        };
        job.into_task(&limits, self.now().await).unwrap()
    }

    pub(super) async fn submit(&self, job: DelayQueueJob) -> SubmitOutcome {
        let task = self.task(job).await;
        let outcomes = self.store.submit(vec![task]).await;
        assert_eq!(outcomes.len(), 1);
        outcomes.into_iter().next().unwrap().unwrap()
    }

    /// Submits a task that must be accepted as new; returns when it is due.
    pub(super) async fn accept(&self, job: DelayQueueJob) -> Timestamp {
        match self.submit(job).await {
            SubmitOutcome::Accepted {
                due_at,
                replaced: false,
            } => due_at,
            other => panic!("not accepted as new: {other:?}"),
        }
    }

    /// A claim of as many as possible, with locks that do not expire in a test.
    pub(super) async fn request(&self) -> ClaimRequest {
        ClaimRequest {
            limit: MAX_BATCH,
            lock_for: LONG,
            caller_now: self.now().await,
            max_lock_expiries: MANY,
            fleet: FleetLimits::NONE,
        }
    }

    pub(super) async fn claim_as(&self, request: &ClaimRequest) -> Claimed {
        self.store.claim(&usual_type(), request).await.unwrap()
    }

    pub(super) async fn claim(&self) -> Claimed {
        self.claim_as(&self.request().await).await
    }

    /// The store's clock, in microseconds.
    pub(super) async fn micros(&self) -> i64 {
        let mut none = self.request().await;
        none.limit = 0;
        micros(&self.claim_as(&none).await)
    }

    /// Claims exactly one task and nothing else.
    pub(super) async fn claim_one(&self) -> ClaimedTask {
        let claimed = self.claim().await;
        assert_eq!(
            (claimed.tasks.len(), claimed.ended.len()),
            (1, 0),
            "{claimed:?}"
        );
        claimed.tasks.into_iter().next().unwrap()
    }

    pub(super) async fn claims_nothing(&self) {
        let claimed = self.claim().await;
        assert_eq!((claimed.tasks, claimed.ended), (Vec::new(), Vec::new()));
    }

    /// A new task that runs, and nothing else does so far.
    pub(super) async fn run(&self, id: &str) -> ClaimedTask {
        self.accept(job(id)).await;
        let task = self.claim_one().await;
        assert_eq!(task.lock.id.as_str(), id);
        task
    }

    /// New tasks that run, with whatever else was due.
    pub(super) async fn run_more(
        &self,
        ids: impl IntoIterator<Item = impl Into<String>>,
    ) -> Vec<ClaimedTask> {
        let mut batch = Vec::new();
        for id in ids {
            batch.push(self.task(job(&id.into())).await);
        }
        for outcome in self.store.submit(batch).await {
            assert!(
                matches!(outcome, Ok(SubmitOutcome::Accepted { .. })),
                "{outcome:?}"
            );
        }
        let mut running = Vec::new();
        for _ in 0..100 {
            let claimed = self.claim().await;
            if claimed.tasks.is_empty() {
                return running;
            }
            running.extend(claimed.tasks);
        }
        panic!("claims go on handing out tasks that run: {}", running.len());
    }

    /// Frees an id for the next round of a test, whatever its state but running.
    pub(super) async fn free(&self, id: &str) {
        self.cancel(id).await;
        let task_type = usual_type();
        let filter = DeadFilter::Ids(vec![self::id(id)]);
        self.store.discard_dead(&task_type, &filter).await.unwrap();
        for state in [TaskState::Done, TaskState::Cancelled, TaskState::Expired] {
            self.store.purge(&task_type, state).await.unwrap();
        }
        assert_eq!(self.find(id).await, None);
    }

    /// A new task brought into `state`.
    pub(super) async fn bring(&self, id: &str, state: TaskState) {
        if state == TaskState::Scheduled {
            self.accept(job(id).after(LONG)).await;
        } else {
            let task = self.run(id).await;
            self.leave(&task.lock, state).await;
        }
        assert_eq!(self.state(id).await, Some(state));
    }

    /// Settles a running task so that it is in `state` afterwards.
    async fn leave(&self, lock: &Lock, state: TaskState) {
        let end = match state {
            TaskState::Done => AttemptEnd::Done,
            TaskState::Dead => dead("no such order"),
            TaskState::Expired => AttemptEnd::Expired,
            TaskState::Cancelled => {
                self.cancel(lock.id.as_str()).await;
                release(LONG)
            }
            _ => return,
        };
        self.settled(lock, end).await;
    }

    pub(super) async fn settle(&self, lock: &Lock, end: AttemptEnd) -> SettleOutcome {
        let lock = lock.clone();
        let settlements = vec![Settlement { lock, end }];
        let outcomes = self.store.settle(&usual_type(), settlements).await.unwrap();
        assert_eq!(outcomes.len(), 1);
        outcomes[0]
    }

    /// Settles an attempt whose lock must hold.
    pub(super) async fn settled(&self, lock: &Lock, end: AttemptEnd) {
        assert_eq!(self.settle(lock, end).await, SettleOutcome::Settled);
    }

    pub(super) async fn extend(&self, lock: &Lock, lock_for: Duration) -> ExtendOutcome {
        let locks = vec![lock.clone()];
        let outcomes = self
            .store
            .extend(&usual_type(), locks, lock_for)
            .await
            .unwrap();
        assert_eq!(outcomes.len(), 1);
        outcomes[0]
    }

    /// Lets a lock expire: from now on a claim takes the task over.
    pub(super) async fn expire(&self, lock: &Lock) {
        let outcome = self.extend(lock, SHORT).await;
        assert_ne!(outcome, ExtendOutcome::LockLost);
        self.pass(SHORT).await;
    }

    pub(super) async fn cancel(&self, id: &str) -> CancelOutcome {
        self.store
            .cancel(&usual_type(), &self::id(id))
            .await
            .unwrap()
    }

    /// Moves a task to now, and returns once that has come: a delay counts from the end of the present
    /// millisecond.
    pub(super) async fn run_now(&self, id: &str) -> Timestamp {
        let outcome = self.reschedule(id, When::After(Duration::ZERO)).await;
        let ChangeOutcome::Changed { due_at } = outcome else {
            panic!("{outcome:?}");
        };
        self.reach(due_at).await;
        due_at
    }

    pub(super) async fn reschedule(&self, id: &str, when: When) -> ChangeOutcome {
        let id = self::id(id);
        self.store
            .reschedule(&usual_type(), &id, when)
            .await
            .unwrap()
    }

    pub(super) async fn update(&self, id: &str, message: &str) -> ChangeOutcome {
        let (id, message) = (self::id(id), message.as_bytes().to_vec());
        self.store
            .update(&usual_type(), &id, message)
            .await
            .unwrap()
    }

    pub(super) async fn find(&self, id: &str) -> Option<TaskInfo> {
        self.store.find(&usual_type(), &self::id(id)).await.unwrap()
    }

    /// What is known of a task that must be known.
    pub(super) async fn info(&self, id: &str) -> TaskInfo {
        self.find(id)
            .await
            .unwrap_or_else(|| panic!("{id} is not known"))
    }

    pub(super) async fn state(&self, id: &str) -> Option<TaskState> {
        self.find(id).await.map(|info| info.state)
    }
}
