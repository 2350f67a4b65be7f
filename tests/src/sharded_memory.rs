//! A sharded store in memory: a handler's loops over several buckets, on virtual time.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use delayq_core::memory::MemoryStore;
use delayq_core::operate::{Setting, TypeSettings, TypeStats};
use delayq_core::store::{
    BucketState, CancelOutcome, ChangeOutcome, ClaimRequest, Claimed, Durability, ExtendOutcome,
    SettleOutcome, Settlement, StoreOptions, SubmitOutcome, Wakeup, Wakeups,
};
use delayq_core::task::Headers;
use delayq_core::{
    Bucket, Chronicle, Clock, Documents, Ends, Error, Lock, NewTask, Operate, Presence, Replies,
    Result, Store, TaskId, TaskInfo, TaskType, When,
};
use tokio::sync::broadcast;

/// Every type has as many shards as the newest epoch, each a memory store of its own.
#[derive(Debug)]
pub struct ShardedMemory {
    clock: Arc<dyn Clock>,
    epochs: Mutex<Vec<Epoch>>,
    wakeups: broadcast::Sender<Wakeup>,
}

/// The shards that one resize made.
#[derive(Clone, Debug)]
struct Epoch {
    number: usize,
    shards: Vec<Arc<MemoryStore>>,
}

impl Epoch {
    fn shard_of(&self, id: &TaskId) -> usize {
        let mut hasher = DefaultHasher::new();
        id.hash(&mut hasher);
        usize::try_from(hasher.finish() % self.shards.len() as u64).unwrap_or(0)
    }

    fn buckets(&self, task_type: &TaskType) -> impl Iterator<Item = Bucket> {
        let names = (0..self.shards.len()).map(|shard| format!("{}.{shard}", self.number));
        names.map(|name| Bucket::shard(task_type.clone(), name))
    }

    async fn is_empty(&self, task_type: &TaskType) -> Result<bool> {
        for shard in &self.shards {
            let stats = shard.stats(task_type).await?;
            if stats.scheduled + stats.running + stats.dead > 0 {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// The shard that an operation goes to.
struct Home {
    store: Arc<MemoryStore>,
    bucket: Bucket,
    is_newest: bool,
}

impl ShardedMemory {
    /// Types with `shards` shards on `clock`.
    #[must_use]
    pub fn new(clock: Arc<dyn Clock>, shards: usize) -> Self {
        let store = Self {
            clock,
            epochs: Mutex::default(),
            wakeups: broadcast::Sender::new(1_024),
        };
        store.resize(shards);
        store
    }

    /// Gives every type a new set of shards; those before it drain.
    pub fn resize(&self, shards: usize) {
        let shard = || MemoryStore::new(Arc::clone(&self.clock), StoreOptions::default());
        let mut epochs = self.lock();
        let number = epochs.len();
        let shards = (0..shards).map(|_| Arc::new(shard())).collect();
        epochs.push(Epoch { number, shards });
    }

    /// The bucket that holds the task, or would take it.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn bucket_of(&self, task_type: &TaskType, id: &TaskId) -> Result<Bucket> {
        Ok(self.home(task_type, id).await?.bucket)
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Epoch>> {
        self.epochs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Where the task is; where it would go when it is nowhere.
    async fn home(&self, task_type: &TaskType, id: &TaskId) -> Result<Home> {
        let epochs = self.lock().clone();
        let mut newest = None;
        for epoch in epochs.iter().rev() {
            let shard = epoch.shard_of(id);
            let (Some(store), Some(bucket)) =
                (epoch.shards.get(shard), epoch.buckets(task_type).nth(shard))
            else {
                continue;
            };
            let home = Home {
                store: Arc::clone(store),
                bucket,
                is_newest: newest.is_none(),
            };
            if store.find(task_type, id).await?.is_some() {
                return Ok(home);
            }
            newest.get_or_insert(home);
        }
        newest.ok_or(Error::Closed("the store"))
    }

    fn at(&self, bucket: &Bucket) -> Option<Home> {
        let epochs = self.lock();
        let last = epochs.len().checked_sub(1)?;
        let (epoch, shard) = bucket.shard_name().split_once('.')?;
        let (epoch, shard) = (epoch.parse::<usize>().ok()?, shard.parse::<usize>().ok()?);
        Some(Home {
            store: Arc::clone(epochs.get(epoch)?.shards.get(shard)?),
            bucket: bucket.clone(),
            is_newest: epoch == last,
        })
    }

    fn wake(&self, bucket: Bucket) {
        // Nobody may listen.
        let _ = self.wakeups.send(Wakeup::Bucket(bucket));
    }
}

#[async_trait]
impl Store for ShardedMemory {
    fn name(&self) -> String {
        "memory, sharded".to_owned()
    }

    fn has_shards(&self) -> bool {
        true
    }

    fn durability(&self) -> Durability {
        Durability::Memory
    }

    async fn submit(&self, tasks: Vec<NewTask>) -> Vec<Result<SubmitOutcome>> {
        let mut outcomes = Vec::new();
        for task in tasks {
            match self.home(&task.task_type, &task.id).await {
                Ok(home) => {
                    outcomes.extend(home.store.submit(vec![task]).await);
                    self.wake(home.bucket);
                }
                Err(error) => outcomes.push(Err(error)),
            }
        }
        outcomes
    }

    async fn buckets(&self, task_type: &TaskType) -> Result<Vec<Bucket>> {
        let epochs = self.lock().clone();
        let mut buckets = Vec::new();
        for (nth, epoch) in epochs.iter().enumerate() {
            if nth + 1 == epochs.len() || !epoch.is_empty(task_type).await? {
                buckets.extend(epoch.buckets(task_type));
            }
        }
        Ok(buckets)
    }

    async fn claim(&self, bucket: &Bucket, request: &ClaimRequest) -> Result<Claimed> {
        let task_type = bucket.task_type().clone();
        let Some(home) = self.at(bucket) else {
            let reason = format!("no bucket {bucket}");
            return Err(Error::invalid("bucket", reason));
        };
        let whole = Bucket::whole(task_type.clone());
        let mut claimed = home.store.claim(&whole, request).await?;
        if !home.is_newest {
            let stats = home.store.stats(&task_type).await?;
            let left = stats.scheduled + stats.running + stats.dead;
            claimed.bucket = if left == 0 {
                BucketState::Drained
            } else {
                BucketState::Sealed
            };
        }
        Ok(claimed)
    }

    async fn settle(
        &self,
        bucket: &Bucket,
        settlements: Vec<Settlement>,
    ) -> Result<Vec<SettleOutcome>> {
        let Some(home) = self.at(bucket) else {
            return Ok(vec![SettleOutcome::LockLost; settlements.len()]);
        };
        let whole = Bucket::whole(bucket.task_type().clone());
        let outcomes = home.store.settle(&whole, settlements).await;
        self.wake(home.bucket);
        outcomes
    }

    async fn extend(
        &self,
        bucket: &Bucket,
        locks: Vec<Lock>,
        lock_for: Duration,
    ) -> Result<Vec<ExtendOutcome>> {
        let Some(home) = self.at(bucket) else {
            return Ok(vec![ExtendOutcome::LockLost; locks.len()]);
        };
        let whole = Bucket::whole(bucket.task_type().clone());
        home.store.extend(&whole, locks, lock_for).await
    }

    async fn extend_alone(
        &self,
        bucket: &Bucket,
        lock: &Lock,
        lock_for: Duration,
    ) -> Result<ExtendOutcome> {
        let Some(home) = self.at(bucket) else {
            return Ok(ExtendOutcome::LockLost);
        };
        let whole = Bucket::whole(bucket.task_type().clone());
        home.store.extend_alone(&whole, lock, lock_for).await
    }

    async fn note_failure(&self, bucket: &Bucket, lock: &Lock, error: &str) -> Result<bool> {
        let Some(home) = self.at(bucket) else {
            return Ok(false);
        };
        let whole = Bucket::whole(bucket.task_type().clone());
        home.store.note_failure(&whole, lock, error).await
    }

    async fn cancel(&self, task_type: &TaskType, id: &TaskId) -> Result<CancelOutcome> {
        let home = self.home(task_type, id).await?;
        home.store.cancel(task_type, id).await
    }

    async fn reschedule(
        &self,
        task_type: &TaskType,
        id: &TaskId,
        when: When,
    ) -> Result<ChangeOutcome> {
        let home = self.home(task_type, id).await?;
        let changed = home.store.reschedule(task_type, id, when).await;
        self.wake(home.bucket);
        changed
    }

    async fn update(
        &self,
        task_type: &TaskType,
        id: &TaskId,
        message: Vec<u8>,
    ) -> Result<ChangeOutcome> {
        let home = self.home(task_type, id).await?;
        home.store.update(task_type, id, message).await
    }

    async fn update_with(
        &self,
        task_type: &TaskType,
        id: &TaskId,
        message: Vec<u8>,
        headers: &Headers,
    ) -> Result<ChangeOutcome> {
        let home = self.home(task_type, id).await?;
        home.store
            .update_with(task_type, id, message, headers)
            .await
    }

    async fn find(&self, task_type: &TaskType, id: &TaskId) -> Result<Option<TaskInfo>> {
        let home = self.home(task_type, id).await?;
        home.store.find(task_type, id).await
    }

    fn wakeups(&self) -> Wakeups {
        Wakeups::new(self.wakeups.subscribe())
    }
}

#[async_trait]
impl Operate for ShardedMemory {
    async fn types(&self) -> Result<Vec<TaskType>> {
        let epochs = self.lock().clone();
        let mut types = Vec::new();
        for shard in epochs.iter().flat_map(|epoch| &epoch.shards) {
            types.extend(shard.types().await?);
        }
        types.sort_unstable();
        types.dedup();
        Ok(types)
    }

    async fn register_type(&self, task_type: &TaskType) -> Result<()> {
        let newest = self.lock().last().cloned();
        for shard in newest.iter().flat_map(|epoch| &epoch.shards) {
            shard.register_type(task_type).await?;
        }
        Ok(())
    }

    /// Resizes once, to more shards than there are.
    async fn configure_type(&self, _: &TaskType, settings: &TypeSettings) -> Result<()> {
        if matches!(settings.history, Setting::To(_)) {
            return Err(Error::Unsupported("history"));
        }
        let shards = settings
            .shards
            .and_then(|shards| usize::try_from(shards).ok());
        let present = self.lock().last().map_or(0, |epoch| epoch.shards.len());
        if let Some(shards) = shards.filter(|shards| *shards > present) {
            self.resize(shards);
        }
        Ok(())
    }

    async fn stats(&self, task_type: &TaskType) -> Result<TypeStats> {
        let epochs = self.lock().clone();
        let mut sum = TypeStats::default();
        for shard in epochs.iter().flat_map(|epoch| &epoch.shards) {
            let part = shard.stats(task_type).await?;
            sum.now = part.now;
            sum.scheduled += part.scheduled;
            sum.due += part.due;
            sum.running += part.running;
            sum.dead += part.dead;
            sum.next_due = sum.next_due.into_iter().chain(part.next_due).min();
        }
        Ok(sum)
    }
}

#[async_trait]
impl Presence for ShardedMemory {}

#[async_trait]
impl Chronicle for ShardedMemory {}

#[async_trait]
impl Documents for ShardedMemory {}

#[async_trait]
impl Replies for ShardedMemory {}

#[async_trait]
impl Ends for ShardedMemory {}
