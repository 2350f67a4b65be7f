//! Memory store: the executable specification of the [`Store`] contract, and the store of tests.
//!
//! It keeps every promise except durability: its tasks end with the process. Where the
//! documentation of [`Store`] leaves a question open, the behaviour of this store is the answer.
//!
//! Reading order: `entry` (the record of one task), `type_tasks` (the order of one type's tasks),
//! `operations` (one function for each operation), `claim`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::broadcast;

mod audit;
mod chronicle;
mod claim;
mod documents;
mod ends;
mod entry;
mod operate;
mod operations;
mod replies;
mod type_tasks;

use self::chronicle::Pages;
use self::documents::Folders;
use self::ends::EndQueue;
use self::replies::Drawer;
use self::type_tasks::{Retention, TypeTasks};
use crate::error::{Error, Result};
use crate::job::{NewTask, When};
use crate::name::{Namespace, TaskId, TaskType};
use crate::presence::{InstanceId, InstanceInfo, MAX_INSTANCES, Presence};
use crate::state::TaskState;
use crate::store::{
    Bucket, CLOCK_GUARD, CancelOutcome, ChangeOutcome, ClaimRequest, Claimed, Durability,
    ExtendOutcome, SettleOutcome, Settlement, Store, StoreOptions, SubmitOutcome, Wakeup, Wakeups,
};
use crate::task::{Headers, Lock, TaskInfo};
use crate::time::{Clock, Reading, SystemClock, Timestamp};

/// Number of wake-ups that a slow listener may be behind before it is told to claim from every
/// type.
const WAKEUP_BUFFER: usize = 1_024;

/// A store whose tasks end with the process. For tests, and for work that can be lost.
///
/// With a `VirtualClock` (feature `test-util`) a test decides when time passes.
#[derive(Debug)]
pub struct MemoryStore {
    clock: Arc<dyn Clock>,
    options: StoreOptions,
    types: Mutex<Types>,
    instances: Mutex<Instances>,
    pages: Mutex<Pages>,
    folders: Mutex<Folders>,
    drawer: Mutex<Drawer>,
    ends: Mutex<EndQueue>,
    wakeups: broadcast::Sender<Wakeup>,
    is_closed: AtomicBool,
}

/// The listed instances, each with the end of its listing.
type Instances = BTreeMap<InstanceId, (InstanceInfo, Timestamp)>;

/// All types: their buckets, and the list of types.
///
/// A type that was only paused has a bucket and is not listed.
#[derive(Debug, Default)]
struct Types {
    buckets: BTreeMap<TaskType, TypeTasks>,
    listed: BTreeSet<TaskType>,
}

impl MemoryStore {
    /// An empty store on `clock`. From `options` it uses the retention and the number of remembered
    /// ended tasks. The namespace is only part of its name, as each memory store has its own tasks.
    /// The durability is always `Memory`.
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
            pages: Mutex::default(),
            folders: Mutex::default(),
            drawer: Mutex::default(),
            ends: Mutex::default(),
            wakeups: broadcast::Sender::new(WAKEUP_BUFFER),
            is_closed: AtomicBool::new(false),
        }
    }

    fn retention(&self) -> Retention {
        Retention {
            span: self.options.retention,
            most: self.options.remembered,
        }
    }

    /// Ignores poisoning: a panic cannot leave a type half changed, as operations decide first and
    /// allocate little.
    fn lock(&self) -> MutexGuard<'_, Types> {
        self.types.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn refuse_closed(&self) -> Result<()> {
        let is_closed = self.is_closed.load(Ordering::Relaxed);
        let closed = is_closed.then_some(Error::Closed("the store"));
        closed.map_or(Ok(()), Err)
    }

    /// The instances listed now.
    fn present(&self) -> (MutexGuard<'_, Instances>, Timestamp) {
        let instances = self.instances.lock();
        let mut instances = instances.unwrap_or_else(PoisonError::into_inner);
        let now = self.clock.now();
        instances.retain(|_, (_, until)| *until > now);
        (instances, now)
    }

    /// Reads one type; an unknown one reads as an empty bucket.
    fn read<R>(
        &self,
        task_type: &TaskType,
        query: impl FnOnce(&mut TypeTasks, Timestamp) -> R,
    ) -> Result<R> {
        self.refuse_closed()?;
        let mut types = self.lock();
        let reading = self.clock.read();
        let now = reading.now;
        let mut empty = TypeTasks::new(self.retention());
        let bucket = types.buckets.get_mut(task_type).unwrap_or(&mut empty);
        bucket.reading = reading;
        bucket.forget(now);
        Ok(query(bucket, now))
    }

    /// Changes one type, and wakes its handlers if its first task became earlier.
    fn edit<R>(
        &self,
        task_type: &TaskType,
        operation: impl FnOnce(&mut TypeTasks, Timestamp) -> R,
    ) -> Result<R> {
        self.refuse_closed()?;
        let mut types = self.lock();
        let reading = self.clock.read();
        let (result, woken) = types.edit(task_type, self.retention(), reading, operation);
        self.queue_ends(&mut types, task_type);
        drop(types);
        if woken {
            self.wake(task_type.clone());
        }
        Ok(result)
    }

    /// Moves the records of an operation into the queue of ends, in its step.
    fn queue_ends(&self, types: &mut Types, task_type: &TaskType) {
        let Some(tasks) = types.buckets.get_mut(task_type) else {
            return;
        };
        let ended = std::mem::take(&mut tasks.recorded).into_iter();
        let lives: Vec<_> = ended.map(|end| end.into_life(task_type.clone())).collect();
        if !lives.is_empty() {
            let mut queue = self.ends.lock().unwrap_or_else(PoisonError::into_inner);
            queue.push(lives, ends::limit(&self.options));
        }
    }

    fn wake(&self, task_type: TaskType) {
        let _ = self.wakeups.send(Wakeup::Type(task_type));
    }
}

impl Types {
    /// Runs one operation. Also returns true if handlers of the type have to claim earlier than
    /// planned.
    fn edit<R>(
        &mut self,
        task_type: &TaskType,
        retention: Retention,
        reading: Reading,
        operation: impl FnOnce(&mut TypeTasks, Timestamp) -> R,
    ) -> (R, bool) {
        let bucket = self
            .buckets
            .entry(task_type.clone())
            .or_insert_with(|| TypeTasks::new(retention));
        let now = reading.now;
        bucket.forget(now);
        bucket.reading = reading;
        let before = bucket.head(now);
        let held_back = std::mem::take(&mut bucket.held_back);
        let running = bucket.count(TaskState::Running);
        let result = operation(bucket, now);
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

    fn namespace(&self) -> Option<&Namespace> {
        Some(&self.options.namespace)
    }

    fn durability(&self) -> Durability {
        self.options.durability
    }

    async fn submit(&self, tasks: Vec<NewTask>) -> Vec<Result<SubmitOutcome>> {
        if let Err(error) = self.refuse_closed() {
            return vec![Err(error); tasks.len()];
        }
        let mut types = self.lock();
        let reading = self.clock.read();
        let mut woken = BTreeSet::new();
        let mut outcomes = Vec::with_capacity(tasks.len());
        for task in tasks {
            let task_type = task.task_type.clone();
            let operation = |tasks: &mut TypeTasks, _| operations::submit(tasks, task);
            let (outcome, earlier) = types.edit(&task_type, self.retention(), reading, operation);
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

    async fn claim(&self, bucket: &Bucket, request: &ClaimRequest) -> Result<Claimed> {
        self.edit(bucket.task_type(), |tasks, store_now| {
            let now = store_now.min(request.caller_now.plus(CLOCK_GUARD));
            claim::claim(tasks, request, now, store_now)
        })?
    }

    async fn settle(
        &self,
        bucket: &Bucket,
        settlements: Vec<Settlement>,
    ) -> Result<Vec<SettleOutcome>> {
        self.edit(bucket.task_type(), |tasks, _| {
            settlements
                .iter()
                .map(|end| operations::settle(tasks, end))
                .collect()
        })
    }

    async fn extend(
        &self,
        bucket: &Bucket,
        locks: Vec<Lock>,
        lock_for: Duration,
    ) -> Result<Vec<ExtendOutcome>> {
        self.edit(bucket.task_type(), |tasks, now| {
            let until = now.plus(lock_for);
            locks
                .iter()
                .map(|lock| operations::extend(tasks, lock, until, false))
                .collect()
        })
    }

    async fn extend_alone(
        &self,
        bucket: &Bucket,
        lock: &Lock,
        lock_for: Duration,
    ) -> Result<ExtendOutcome> {
        self.edit(bucket.task_type(), |tasks, now| {
            operations::extend(tasks, lock, now.plus(lock_for), true)
        })
    }

    async fn note_failure(&self, bucket: &Bucket, lock: &Lock, error: &str) -> Result<bool> {
        self.edit(bucket.task_type(), |tasks, _| {
            tasks.note_failure(lock, error)
        })
    }

    async fn cancel(&self, task_type: &TaskType, id: &TaskId) -> Result<CancelOutcome> {
        self.edit(task_type, |tasks, now| operations::cancel(tasks, id, now))
    }

    async fn reschedule(
        &self,
        task_type: &TaskType,
        id: &TaskId,
        when: When,
    ) -> Result<ChangeOutcome> {
        self.edit(task_type, |tasks, _| {
            operations::reschedule(tasks, id, when)
        })
    }

    async fn update(
        &self,
        task_type: &TaskType,
        id: &TaskId,
        message: Vec<u8>,
    ) -> Result<ChangeOutcome> {
        self.update_with(task_type, id, message, &Headers::new())
            .await
    }

    async fn update_with(
        &self,
        task_type: &TaskType,
        id: &TaskId,
        message: Vec<u8>,
        headers: &Headers,
    ) -> Result<ChangeOutcome> {
        self.edit(task_type, |tasks, _| {
            operations::update(tasks, id, message, headers)
        })
    }

    async fn find(&self, task_type: &TaskType, id: &TaskId) -> Result<Option<TaskInfo>> {
        self.read(task_type, |tasks, _| tasks.find(id))
    }

    fn wakeups(&self) -> Wakeups {
        Wakeups::new(self.wakeups.subscribe())
    }

    async fn close(&self) {
        self.is_closed.store(true, Ordering::Relaxed);
    }
}

#[async_trait]
impl Presence for MemoryStore {
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
}
