//! A store under test, and short verbs to drive it with.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use delayq_core::operate::DeadFilter;
use delayq_core::store::{
    AttemptEnd, CancelOutcome, ChangeOutcome, ClaimRequest, ExtendOutcome, MAX_BATCH,
    SettleOutcome, Settlement, StoreOptions, SubmitOutcome,
};
use delayq_core::{
    Bucket, ClaimedTask, DelayQueueJob, Limits, Lock, Namespace, NewTask, Store, TaskId, TaskInfo,
    TaskState, TaskType, Timestamp, When,
};

use super::StoreUnderTest;
use super::origins::Origins;
pub(super) use super::round::Round;
pub(super) use super::samples::{
    LONG, SHORT, TYPE, dead, every_end, id, ids, job, release, retry, usual_type,
};

/// Number of lock expiries that a task survives, unless the test is about them.
const MANY: u32 = 1_000;

/// A store under test with a namespace of its own, and short verbs to drive it.
pub struct Rig {
    harness: Arc<dyn StoreUnderTest>,
    options: StoreOptions,
    store: Arc<dyn Store>,
    origins: Arc<Origins>,
}

impl fmt::Debug for Rig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rig")
            .field("store", &self.store)
            .finish_non_exhaustive()
    }
}

impl Rig {
    /// Opens the harness' store in a namespace that no other test uses.
    pub async fn open(harness: impl StoreUnderTest) -> Self {
        Self::with(Arc::new(harness), StoreOptions::default()).await
    }

    /// The same place in a new namespace, with this retention.
    pub(super) async fn with_retention(&self, retention: Duration) -> Self {
        let remembered = StoreOptions::default().remembered;
        self.with_ends(retention, remembered).await
    }

    /// The same place in a new namespace, with this retention and number of remembered ended tasks.
    pub(super) async fn with_ends(&self, retention: Duration, remembered: usize) -> Self {
        let options = StoreOptions {
            retention,
            remembered,
            ..StoreOptions::default()
        };
        Self::with(self.harness.clone(), options).await
    }

    /// The same place in a new namespace, with this bound of its recorded ends.
    pub(super) async fn with_buffer(&self, bytes: u64) -> Self {
        let options = StoreOptions {
            history_buffer: Some(bytes),
            ..StoreOptions::default()
        };
        Self::with(self.harness.clone(), options).await
    }

    async fn with(harness: Arc<dyn StoreUnderTest>, options: StoreOptions) -> Self {
        let options = StoreOptions {
            namespace: Namespace::new(TaskId::generate().as_str()).unwrap(),
            ..options
        };
        let store = harness.open(options.clone()).await;
        Self {
            harness,
            options,
            store,
            origins: Arc::default(),
        }
    }

    /// Another store on the same data, as in another process.
    pub(super) async fn open_again(&self) -> Self {
        Self {
            harness: self.harness.clone(),
            options: self.options.clone(),
            store: self.harness.open(self.options.clone()).await,
            origins: self.origins.clone(),
        }
    }

    /// Another store on the same data, of a process that sets no bound of recorded ends.
    pub(super) async fn open_boundless(&self) -> Self {
        let options = StoreOptions {
            history_buffer: None,
            ..self.options.clone()
        };
        Self {
            harness: self.harness.clone(),
            store: self.harness.open(options.clone()).await,
            options,
            origins: self.origins.clone(),
        }
    }

    pub(super) fn options(&self) -> &StoreOptions {
        &self.options
    }

    pub(super) fn store(&self) -> &dyn Store {
        self.store.as_ref()
    }

    /// The end of every test: the structure of every type is intact.
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

    /// Submits a task that must be accepted as new. Returns its due time.
    pub(super) async fn accept(&self, job: DelayQueueJob) -> Timestamp {
        match self.submit(job).await {
            SubmitOutcome::Accepted {
                due_at,
                replaced: false,
            } => due_at,
            other => panic!("not accepted as new: {other:?}"),
        }
    }

    /// A claim of as many tasks as possible, with locks that do not expire during a test.
    pub(super) async fn request(&self) -> ClaimRequest {
        ClaimRequest::new(MAX_BATCH, LONG, self.now().await).max_lock_expiries(MANY)
    }

    /// The buckets of a type; at least one.
    pub(super) async fn buckets(&self, task_type: &TaskType) -> Vec<Bucket> {
        let buckets = self.store.buckets(task_type).await.unwrap();
        assert!(!buckets.is_empty(), "{task_type} has no bucket");
        buckets
    }

    /// True if the usual type has one bucket, so that there is an order over all of it.
    pub(super) async fn has_one_bucket(&self) -> bool {
        self.buckets(&usual_type()).await.len() == 1
    }

    /// Makes one claim from each bucket of `task_type` in turn; the limit applies to all of them
    /// together.
    pub(super) async fn claim_of(&self, task_type: &TaskType, request: &ClaimRequest) -> Round {
        let mut request = request.clone();
        let mut parts = Vec::new();
        for bucket in self.buckets(task_type).await {
            let claimed = self.store.claim(&bucket, &request).await.unwrap();
            request.limit = request.limit.saturating_sub(claimed.taken());
            self.origins.note(&bucket, &claimed.tasks);
            parts.push((bucket, claimed));
        }
        Round::new(parts)
    }

    pub(super) async fn claim_as(&self, request: &ClaimRequest) -> Round {
        self.claim_of(&usual_type(), request).await
    }

    pub(super) async fn claim(&self) -> Round {
        self.claim_as(&self.request().await).await
    }

    /// The bucket that a lock was claimed from; any bucket for a lock that never existed.
    pub(super) async fn origin(&self, lock: &Lock) -> Bucket {
        match self.origins.of(lock) {
            Some(bucket) => bucket,
            None => self.buckets(&usual_type()).await.remove(0),
        }
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
        assert_eq!((claimed.tasks, claimed.ended), (vec![], vec![]));
    }

    /// A new running task, the only one so far.
    pub(super) async fn run(&self, id: &str) -> ClaimedTask {
        self.accept(job(id)).await;
        let task = self.claim_one().await;
        assert_eq!(task.lock.id.as_str(), id);
        task
    }

    /// New running tasks, with any others that were due.
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

    /// Frees an id for the next round of a test, in any state except running.
    pub(super) async fn free(&self, id: &str) {
        let _ = self.cancel(id).await;
        let task_type = usual_type();
        let filter = DeadFilter::Ids(vec![self::id(id)]);
        self.store.discard_dead(&task_type, &filter).await.unwrap();
        for state in [TaskState::Done, TaskState::Cancelled, TaskState::Expired] {
            self.store.purge(&task_type, state).await.unwrap();
        }
        assert_eq!(self.find(id).await, None);
    }

    /// Brings a new task into `state`.
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
                let _ = self.cancel(lock.id.as_str()).await;
                release(LONG)
            }
            _ => return,
        };
        self.settled(lock, end).await;
    }

    pub(super) async fn settle(&self, lock: &Lock, end: AttemptEnd) -> SettleOutcome {
        self.settle_all(vec![Settlement::new(lock.clone(), end)])
            .await[0]
    }

    /// Settles an attempt whose lock must hold.
    pub(super) async fn settled(&self, lock: &Lock, end: AttemptEnd) {
        assert_eq!(self.settle(lock, end).await, SettleOutcome::Settled);
    }

    pub(super) async fn extend(&self, lock: &Lock, lock_for: Duration) -> ExtendOutcome {
        self.extend_all(vec![lock.clone()], lock_for).await[0]
    }

    /// Settles each lock in the bucket that it was claimed from; the outcomes are in order.
    pub(super) async fn settle_all(&self, batch: Vec<Settlement>) -> Vec<SettleOutcome> {
        let locks = batch.iter().map(|one| &one.lock);
        let mut outcomes = BTreeMap::new();
        for (bucket, positions) in self.by_origin(locks).await {
            let part = positions.iter().map(|nth| batch[*nth].clone()).collect();
            let answers = self.store.settle(&bucket, part).await.unwrap();
            assert_eq!(answers.len(), positions.len());
            outcomes.extend(positions.into_iter().zip(answers));
        }
        outcomes.into_values().collect()
    }

    /// Extends a lock whose holder runs nothing else.
    pub(super) async fn extend_alone(&self, lock: &Lock, lock_for: Duration) -> ExtendOutcome {
        let bucket = self.origin(lock).await;
        self.store
            .extend_alone(&bucket, lock, lock_for)
            .await
            .unwrap()
    }

    /// Extends each lock in the bucket that it was claimed from; the outcomes are in order.
    pub(super) async fn extend_all(
        &self,
        locks: Vec<Lock>,
        lock_for: Duration,
    ) -> Vec<ExtendOutcome> {
        let mut outcomes = BTreeMap::new();
        for (bucket, positions) in self.by_origin(&locks).await {
            let part = positions.iter().map(|nth| locks[*nth].clone()).collect();
            let answers = self.store.extend(&bucket, part, lock_for).await.unwrap();
            assert_eq!(answers.len(), positions.len());
            outcomes.extend(positions.into_iter().zip(answers));
        }
        outcomes.into_values().collect()
    }

    /// Groups the locks by their buckets, as positions.
    async fn by_origin<'a>(
        &self,
        locks: impl IntoIterator<Item = &'a Lock>,
    ) -> BTreeMap<Bucket, Vec<usize>> {
        let mut by_origin = BTreeMap::<_, Vec<usize>>::new();
        for (nth, lock) in locks.into_iter().enumerate() {
            let origin = self.origin(lock).await;
            by_origin.entry(origin).or_default().push(nth);
        }
        by_origin
    }

    /// Lets a lock expire: from now on a claim takes the task over.
    pub(super) async fn expire(&self, lock: &Lock) {
        let outcome = self.extend(lock, SHORT).await;
        assert_ne!(outcome, ExtendOutcome::LockLost);
        self.pass(SHORT).await;
    }

    pub(super) async fn cancel(&self, id: &str) -> CancelOutcome {
        let cancelled = self.store.cancel(&usual_type(), &self::id(id)).await;
        cancelled.unwrap()
    }

    /// Moves a task to the present time, and returns once that has come: a delay counts from the
    /// end of the present millisecond.
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
        let moved = self.store.reschedule(&usual_type(), &id, when).await;
        moved.unwrap()
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

    /// The record of a task that must be known.
    pub(super) async fn info(&self, id: &str) -> TaskInfo {
        let found = self.find(id).await;
        found.unwrap_or_else(|| panic!("{id} is not known"))
    }

    pub(super) async fn state(&self, id: &str) -> Option<TaskState> {
        self.find(id).await.map(|info| info.state)
    }
}
