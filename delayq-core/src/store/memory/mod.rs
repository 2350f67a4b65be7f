//! The store in memory: the executable specification of the [`Store`] contract, and the store of tests.
//!
//! It keeps every promise but durability: its tasks end with its process. Where the documentation of
//! [`Store`] leaves a question open, what this store does is the answer.
//!
//! Reading order: [`entry`] (what is kept of one task), [`bucket`] (how one type is ordered), [`edges`]
//! (one function an edge), [`claim`].

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::broadcast;

mod audit;
mod bucket;
mod claim;
mod edges;
mod entry;

use self::bucket::Bucket;
use super::{
    AuditReport, CLOCK_GUARD, CancelOutcome, ChangeOutcome, ClaimRequest, Claimed, Cursor,
    DeadFilter, Durability, ExtendOutcome, InstanceId, InstanceInfo, MAX_INSTANCES, Page,
    SettleOutcome, Settlement, Store, StoreOptions, SubmitOutcome, TypeSettings, TypeStats, Wakeup,
    Wakeups,
};
use crate::error::{Error, Result};
use crate::job::{NewTask, When};
use crate::name::{TaskId, TaskType};
use crate::state::TaskState;
use crate::task::{Lock, TaskInfo};
use crate::time::{Clock, Moment, SystemClock, Timestamp};

/// Wake-ups that a slow listener may be behind before it is told to look at every type.
const WAKEUP_BUFFER: usize = 1_024;

/// A store whose tasks end with the process. For tests, and for work that may be lost.
///
/// With a [`VirtualClock`](crate::VirtualClock) a test decides when time passes.
#[derive(Debug)]
pub struct MemoryStore {
    clock: Arc<dyn Clock>,
    options: StoreOptions,
    types: Mutex<Types>,
    instances: Mutex<Instances>,
    wakeups: broadcast::Sender<Wakeup>,
}

/// Who is there, and until when.
type Instances = BTreeMap<InstanceId, (InstanceInfo, Timestamp)>;

/// All types: their buckets, and which of them are listed.
///
/// A type that was only paused has a bucket and is not listed.
#[derive(Debug, Default)]
struct Types {
    buckets: BTreeMap<TaskType, Bucket>,
    listed: BTreeSet<TaskType>,
}

impl MemoryStore {
    /// An empty store on `clock`. It uses the retention of `options`; the namespace is only part of
    /// its name (each store is a world of its own), and the durability is always `Memory`.
    #[must_use]
    pub fn new(clock: Arc<dyn Clock>, options: StoreOptions) -> Self {
        let durability = Durability::Memory;
        Self {
            clock,
            options: StoreOptions {
                durability,
                ..options
            },
            types: Mutex::default(),
            instances: Mutex::default(),
            wakeups: broadcast::Sender::new(WAKEUP_BUFFER),
        }
    }

    /// A panic cannot leave a bucket half changed: edges decide first and allocate little.
    fn lock(&self) -> MutexGuard<'_, Types> {
        self.types.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Who is there now.
    fn present(&self) -> (MutexGuard<'_, Instances>, Timestamp) {
        let instances = self.instances.lock();
        let mut instances = instances.unwrap_or_else(PoisonError::into_inner);
        let now = self.clock.now();
        instances.retain(|_, (_, until)| *until > now);
        (instances, now)
    }

    /// Looks at one type; an unknown one is looked at as an empty bucket.
    fn read<R>(&self, task_type: &TaskType, look: impl FnOnce(&mut Bucket, Timestamp) -> R) -> R {
        let mut types = self.lock();
        let now = self.clock.now();
        let mut empty = Bucket::new(self.options.retention);
        let bucket = types.buckets.get_mut(task_type).unwrap_or(&mut empty);
        bucket.forget(now);
        look(bucket, now)
    }

    /// Changes one type, and wakes its handlers if its first task became earlier.
    fn edit<R>(&self, task_type: &TaskType, edge: impl FnOnce(&mut Bucket, Timestamp) -> R) -> R {
        let mut types = self.lock();
        let moment = self.clock.moment();
        let (result, woken) = types.edit(task_type, self.options.retention, moment, edge);
        drop(types);
        if woken {
            self.wake(task_type.clone());
        }
        result
    }

    fn wake(&self, task_type: TaskType) {
        // Without a listener there is nobody to wake.
        let _ = self.wakeups.send(Wakeup::Type(task_type));
    }
}

impl Types {
    /// Runs one edge; also whether handlers of the type have to look earlier than they planned.
    fn edit<R>(
        &mut self,
        task_type: &TaskType,
        retention: Duration,
        moment: Moment,
        edge: impl FnOnce(&mut Bucket, Timestamp) -> R,
    ) -> (R, bool) {
        let bucket = self
            .buckets
            .entry(task_type.clone())
            .or_insert_with(|| Bucket::new(retention));
        let now = moment.now;
        bucket.forget(now);
        bucket.moment = moment;
        let before = bucket.head(now);
        let held_back = std::mem::take(&mut bucket.held_back);
        let running = bucket.count(TaskState::Running);
        let result = edge(bucket, now);
        let is_freed = held_back && bucket.count(TaskState::Running) < running;
        bucket.held_back |= held_back && !is_freed;
        (result, is_freed || bucket.head(now).is_earlier_than(before))
    }
}

impl Default for MemoryStore {
    /// An empty store on the system's clock.
    fn default() -> Self {
        Self::new(Arc::new(SystemClock), StoreOptions::default())
    }
}

#[async_trait]
impl Store for MemoryStore {
    fn name(&self) -> String {
        format!("memory:{}", self.options.namespace)
    }

    fn durability(&self) -> Durability {
        self.options.durability
    }

    async fn check(&self) -> Result<()> {
        Ok(())
    }

    async fn submit(&self, tasks: Vec<NewTask>) -> Vec<Result<SubmitOutcome>> {
        let mut types = self.lock();
        let moment = self.clock.moment();
        let mut woken = BTreeSet::new();
        let mut outcomes = Vec::with_capacity(tasks.len());
        for task in tasks {
            let task_type = task.task_type.clone();
            let edge = |bucket: &mut Bucket, now| bucket.submit(task, now);
            let (outcome, earlier) = types.edit(&task_type, self.options.retention, moment, edge);
            types.listed.insert(task_type.clone());
            outcomes.push(outcome);
            if earlier {
                woken.insert(task_type);
            }
        }
        drop(types);
        for task_type in woken {
            self.wake(task_type);
        }
        outcomes
    }

    async fn claim(&self, task_type: &TaskType, request: &ClaimRequest) -> Result<Claimed> {
        Ok(self.edit(task_type, |bucket, store_now| {
            let now = store_now.min(request.caller_now.plus(CLOCK_GUARD));
            bucket.claim(request, now, store_now)
        }))
    }

    async fn settle(
        &self,
        task_type: &TaskType,
        settlements: Vec<Settlement>,
    ) -> Result<Vec<SettleOutcome>> {
        Ok(self.edit(task_type, |bucket, now| {
            let settlements = settlements.into_iter();
            settlements.map(|end| bucket.settle(end, now)).collect()
        }))
    }

    async fn extend(
        &self,
        task_type: &TaskType,
        locks: Vec<Lock>,
        lock_for: Duration,
    ) -> Result<Vec<ExtendOutcome>> {
        Ok(self.edit(task_type, |bucket, now| {
            let until = now.plus(lock_for);
            locks
                .iter()
                .map(|lock| bucket.extend(lock, until))
                .collect()
        }))
    }

    async fn cancel(&self, task_type: &TaskType, id: &TaskId) -> Result<CancelOutcome> {
        Ok(self.edit(task_type, |bucket, now| bucket.cancel(id, now)))
    }

    async fn reschedule(
        &self,
        task_type: &TaskType,
        id: &TaskId,
        when: When,
    ) -> Result<ChangeOutcome> {
        Ok(self.edit(task_type, |bucket, _| bucket.reschedule(id, when)))
    }

    async fn update(
        &self,
        task_type: &TaskType,
        id: &TaskId,
        message: Vec<u8>,
    ) -> Result<ChangeOutcome> {
        Ok(self.edit(task_type, |bucket, _| bucket.update(id, message)))
    }

    async fn find(&self, task_type: &TaskType, id: &TaskId) -> Result<Option<TaskInfo>> {
        Ok(self.read(task_type, |bucket, _| bucket.find(id)))
    }

    async fn types(&self) -> Result<Vec<TaskType>> {
        Ok(self.lock().listed.iter().cloned().collect())
    }

    async fn register_type(&self, task_type: &TaskType) -> Result<()> {
        self.lock().listed.insert(task_type.clone());
        Ok(())
    }

    async fn configure_type(&self, task_type: &TaskType, settings: &TypeSettings) -> Result<()> {
        self.edit(task_type, |bucket, _| {
            settings.max_pending.apply(&mut bucket.max_pending);
        });
        Ok(())
    }

    /// O(number of due tasks), as a `BTreeSet` cannot count a range without walking it.
    async fn stats(&self, task_type: &TaskType) -> Result<TypeStats> {
        Ok(self.read(task_type, |bucket, now| bucket.stats(now)))
    }

    async fn list(
        &self,
        task_type: &TaskType,
        state: TaskState,
        cursor: Option<&Cursor>,
        limit: usize,
    ) -> Result<Page> {
        if state.is_ended() {
            let reason = format!("{state} tasks cannot be listed: find answers for one id");
            return Err(Error::InvalidInput(reason));
        }
        Ok(self.read(task_type, |bucket, _| bucket.list(state, cursor, limit)))
    }

    async fn due_histogram(
        &self,
        task_type: &TaskType,
        from: Timestamp,
        to: Timestamp,
        steps: usize,
    ) -> Result<Vec<u64>> {
        if to <= from || !(1..=1_000).contains(&steps) {
            let reason = format!("cannot split {from}..{to} into {steps} steps: use 1 to 1000");
            return Err(Error::InvalidInput(reason));
        }
        Ok(self.read(task_type, |bucket, _| bucket.due_histogram(from, to, steps)))
    }

    async fn requeue_dead(
        &self,
        task_type: &TaskType,
        filter: &DeadFilter,
        interval: Duration,
    ) -> Result<Vec<TaskId>> {
        Ok(self.edit(task_type, |bucket, now| {
            bucket.requeue_dead(filter, interval, now)
        }))
    }

    async fn discard_dead(&self, task_type: &TaskType, filter: &DeadFilter) -> Result<Vec<TaskId>> {
        Ok(self.edit(task_type, |bucket, _| bucket.discard_dead(filter)))
    }

    async fn pause(&self, task_type: &TaskType, until: Option<Timestamp>) -> Result<()> {
        let until = until.unwrap_or(Timestamp::MAX);
        self.edit(task_type, |bucket, _| bucket.paused_until = until);
        Ok(())
    }

    async fn resume(&self, task_type: &TaskType) -> Result<()> {
        self.edit(task_type, |bucket, _| bucket.paused_until = Timestamp::ZERO);
        Ok(())
    }

    async fn purge(&self, task_type: &TaskType, state: TaskState) -> Result<u64> {
        if state == TaskState::Running {
            let reason = "running tasks cannot be purged: cancel them instead".to_owned();
            return Err(Error::InvalidInput(reason));
        }
        Ok(self.edit(task_type, |bucket, _| bucket.purge(state)))
    }

    async fn audit(&self, task_type: &TaskType, repair: bool) -> Result<AuditReport> {
        Ok(self.edit(task_type, |bucket, _| bucket.audit(repair)))
    }

    async fn announce(&self, instance: &InstanceInfo, holds: Duration) -> Result<()> {
        let (mut instances, now) = self.present();
        let seen = InstanceInfo {
            seen_at: now,
            ..instance.clone()
        };
        instances.insert(instance.id.clone(), (seen, now.plus(holds)));
        Ok(())
    }

    async fn withdraw(&self, id: &InstanceId) -> Result<()> {
        self.present().0.remove(id);
        Ok(())
    }

    async fn instances(&self) -> Result<Vec<InstanceInfo>> {
        let (instances, _) = self.present();
        let present = instances.values().take(MAX_INSTANCES);
        Ok(present.map(|(instance, _)| instance.clone()).collect())
    }

    fn wakeups(&self) -> Wakeups {
        Wakeups::new(self.wakeups.subscribe())
    }
}
