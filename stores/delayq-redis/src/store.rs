//! The store: every operation, on the shards concerned.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use delayq_core::job::{NewTask, When};
use delayq_core::store::{
    BucketState, CancelOutcome, ChangeOutcome, ClaimRequest, Claimed, Concern, Durability,
    ExtendOutcome, SettleOutcome, Settlement, Store, StoreOptions, SubmitOutcome, Wakeups,
};
use delayq_core::task::{Headers, Lock, TaskInfo};
use delayq_core::{Bucket, Error, Namespace, Result, TaskId, TaskType};
use futures_util::future::join_all;

mod chronicle;
mod documents;
mod ends;
mod far;
mod listen;
mod operate;
mod presence;
mod replies;

use crate::config::RedisConfig;
use crate::connection::{Class, Command, Connections, Fields, RespValue, Setup};
use crate::layout::{Shards, route};
use crate::loading::until_loaded;
use crate::lock::lock;
use crate::preflight::{self, Terms};
use crate::scripts::{Keyspace, Script};
use crate::shard::Shard;
use crate::shard::context::Context;
use crate::shard::wakeup_hub::WakeupHub;

/// A store of tasks on a Redis server, shared by any number of instances.
///
/// Needs Redis 7.0 or newer (or Valkey), `maxmemory-policy noeviction`, and an append-only file
/// unless [`Durability::Memory`] is asked for. Calls work from any tokio runtime: a dedicated
/// thread of the store drives its connections. A lost connection is renewed, with any number of
/// attempts.
///
/// With `appendfsync everysec` the server passes each write to the operating system before it
/// answers, except while a sync runs (each second, for as long as the disk takes, up to two
/// seconds). A write acknowledged during a sync is only in the server's memory, and lost if it
/// crashes. `appendfsync always` has no such gap.
#[derive(Debug)]
pub struct RedisStore {
    cx: Arc<Context>,
    pub(crate) shards: Arc<Shards>,
    /// Types that this instance has listed.
    listed: Mutex<HashSet<TaskType>>,
    terms: Terms,
    durability: Mutex<Durability>,
    /// Why far tasks are not packed although that is asked for.
    pack_fault: Option<String>,
}

impl RedisStore {
    /// Connects to the server that a URL names ([`RedisConfig`] has the forms), as
    /// [`connect_with`](Self::connect_with) does.
    ///
    /// # Errors
    /// `InvalidInput` for a URL of another form, without repeating it; errors of `connect_with`.
    pub async fn connect(url: &str, options: StoreOptions) -> Result<Arc<Self>> {
        Self::connect_with(RedisConfig::parse(url)?, options).await
    }

    /// Connects, and checks that the server's settings fulfil the promises of the store.
    ///
    /// # Errors
    /// `InvalidInput` for contradictory settings or unreadable files; `Unavailable` if the server
    /// cannot be reached (the call waits up to `options.call_timeout` for a new master whose
    /// replicas do not follow it yet, and without end for a server that is loading its data, with a
    /// line in the log); `Misconfigured` with the line to change; `ReadOnly` for a replica.
    pub async fn connect_with(config: RedisConfig, options: StoreOptions) -> Result<Arc<Self>> {
        config.check()?;
        let options = options.checked()?;
        until_loaded(|| Self::open(&config, &options)).await
    }

    /// Connects as [`connect`](Self::connect) does, but a server that is still loading its data is
    /// waited for only up to `options.call_timeout`, and then `Unavailable`.
    ///
    /// # Errors
    /// Those of [`connect`](Self::connect).
    pub async fn connect_once(url: &str, options: StoreOptions) -> Result<Arc<Self>> {
        let config = RedisConfig::parse(url)?;
        config.check()?;
        Self::open(&config, &options.checked()?).await
    }

    async fn open(config: &RedisConfig, options: &StoreOptions) -> Result<Arc<Self>> {
        let terms = Terms::new(config, options)?;
        let deadline = Instant::now() + options.call_timeout;
        let hub = Arc::new(WakeupHub::new(config.is_cluster()));
        let heard = Arc::clone(&hub);
        let keys = Keyspace::new(options.namespace.clone());
        let setup = Setup {
            timeout: options.call_timeout,
            is_replicated: options.durability == Durability::Replicated,
            scripts: Script::all(),
            channel: keys.wake_channel(),
            listener: Arc::new(move |message| heard.hear(message)),
        };
        let connections = Connections::open(config, setup).await?;
        let found = preflight::first_check(&connections, &keys, &terms, deadline).await?;
        found.warn_of_hidden(connections.place());
        let (packing, pack_fault) = far::packing(&connections, &keys, config.pack).await?;
        let cx = Context::new(connections, options, hub, config.memory_watermark, packing);
        let store = Arc::new(Self {
            shards: Arc::new(Shards::new(&cx, options.durability)),
            listed: Mutex::default(),
            terms,
            durability: Mutex::new(found.durability),
            pack_fault,
            cx,
        });
        if config.is_cluster() {
            let listening = listen::keep_listening(Arc::downgrade(&store), Arc::clone(&store.cx));
            store.cx.connections.spawn(listening);
        }
        Ok(store)
    }

    /// Submits tasks of one type.
    async fn submit_type(
        &self,
        task_type: &TaskType,
        tasks: Vec<&NewTask>,
    ) -> Vec<Result<SubmitOutcome>> {
        if !lock(&self.listed).contains(task_type)
            && let Err(error) = self.list_type(task_type).await
        {
            return tasks.iter().map(|_| Err(error.clone())).collect();
        }
        self.mark_for_packing(task_type, false).await;
        let submitted = route::submit(&self.shards, task_type, tasks).await;
        if submitted.wants_to_pack {
            self.mark_for_packing(task_type, true).await;
        }
        if submitted.is_new
            && let Err(error) = self.list_type(task_type).await
        {
            // The tasks are stored, so the error must not say that they are not.
            let detail = format!("the type {task_type} could not be listed ({error})");
            let store = self.cx.connections.place().to_string();
            let unlisted = Error::indeterminate(store, detail);
            return submitted
                .outcomes
                .iter()
                .map(|_| Err(unlisted.clone()))
                .collect();
        }
        submitted.outcomes
    }

    /// Marks a type as one whose far tasks are packed, if it has enough tasks. Without the mark its
    /// tasks stay unpacked, which harms nothing.
    async fn mark_for_packing(&self, task_type: &TaskType, is_full: bool) {
        let is_wanted = is_full || self.cx.keys.packing().is_forced();
        if !is_wanted || self.shards.known(task_type).layout.packs {
            return;
        }
        if let Err(error) = self.shards.allow_packing(task_type).await {
            tracing::warn!(%task_type, %error, "cannot mark the type as one that packs far tasks yet");
        }
    }

    pub(crate) fn context(&self) -> &Context {
        &self.cx
    }

    fn shard(&self, bucket: &Bucket) -> Result<Arc<Shard>> {
        let unknown = || Error::invalid("bucket", format!("{bucket} is no bucket of this store"));
        self.shards.shard(bucket).ok_or_else(unknown)
    }

    /// Lists a type, and announces it if its first task would not be noticed otherwise.
    async fn list_type(&self, task_type: &TaskType) -> Result<()> {
        let list = Command::write(&["SADD", &self.cx.keys.types(), task_type.as_str()]);
        self.call_types(list).await?;
        lock(&self.listed).insert(task_type.clone());
        if self.cx.connections.is_cluster() {
            let message = self.cx.hub.message(&Bucket::whole(task_type.clone()));
            let announce = ["SPUBLISH", &self.cx.keys.wake_channel(), &message];
            self.call_types(Command::write(&announce)).await?;
        }
        Ok(())
    }

    /// Notes that the ends of a type are recorded.
    async fn note_recorded(&self, task_type: &TaskType) -> Result<()> {
        let key = self.cx.keys.recorded();
        let note = Command::write(&["SADD", &key, task_type.as_str()]);
        self.call_types(note).await.map(drop)
    }

    /// Takes a name off the list of types.
    async fn unlist(&self, name: &str) -> Result<()> {
        let unlist = Command::write(&["SREM", &self.cx.keys.types(), name]);
        self.call_types(unlist).await.map(drop)
    }

    async fn call_types(&self, command: Command) -> Result<Fields> {
        let command = command.at(self.cx.keys.slot());
        let answer = self.cx.connections.call(Class::Main, command).await;
        let of_types = |error| match error {
            Error::Corrupt { .. } => Error::corrupt(
                self.cx.keys.types(),
                "it is not a set: who else writes to `delayq:*`?",
            ),
            error => error,
        };
        answer.map(RespValue::fields).map_err(of_types)
    }
}

#[async_trait]
impl Store for RedisStore {
    fn name(&self) -> String {
        self.cx.connections.place().to_string()
    }

    fn namespace(&self) -> Option<&Namespace> {
        Some(self.cx.keys.namespace())
    }

    fn has_shards(&self) -> bool {
        true
    }

    fn durability(&self) -> Durability {
        *lock(&self.durability)
    }

    async fn close(&self) {
        self.cx.connections.close();
    }

    async fn check(&self) -> Result<()> {
        let found = preflight::check(&self.cx.connections, &self.cx.keys, &self.terms).await?;
        *lock(&self.durability) = found.durability;
        found.memory
    }

    async fn concerns(&self) -> Result<Vec<Concern>> {
        Ok(self
            .pack_fault
            .iter()
            .map(|fault| far::concern(fault))
            .collect())
    }

    async fn submit(&self, tasks: Vec<NewTask>) -> Vec<Result<SubmitOutcome>> {
        if let Err(error) = self.cx.connections.check_open() {
            return vec![Err(error); tasks.len()];
        }
        // The usual case needs no grouping.
        if let [task] = tasks.as_slice() {
            return self.submit_type(&task.task_type, vec![task]).await;
        }
        let mut by_type: HashMap<&TaskType, Vec<usize>> = HashMap::new();
        for (index, task) in tasks.iter().enumerate() {
            by_type.entry(&task.task_type).or_default().push(index);
        }
        let submits = by_type.iter().map(async |(task_type, indexes)| {
            let own = indexes
                .iter()
                .filter_map(|index| tasks.get(*index))
                .collect();
            self.submit_type(task_type, own).await
        });
        let answers = join_all(submits).await;
        let no_answer = || Err(Error::Closed("the Redis store"));
        let mut outcomes: Vec<_> = tasks.iter().map(|_| no_answer()).collect();
        for (indexes, own) in by_type.values().zip(answers) {
            for (index, outcome) in indexes.iter().zip(own) {
                if let Some(slot) = outcomes.get_mut(*index) {
                    *slot = outcome;
                }
            }
        }
        outcomes
    }

    async fn buckets(&self, task_type: &TaskType) -> Result<Vec<Bucket>> {
        let map = self.shards.current(task_type).await?;
        Ok(map.all().map(|shard| shard.keys.bucket.clone()).collect())
    }

    async fn claim(&self, bucket: &Bucket, request: &ClaimRequest) -> Result<Claimed> {
        let claimed = match self.shard(bucket)?.claim(request).await {
            Err(Error::FleetLimitOnShards { task_type, .. }) => {
                let map = self.shards.current(bucket.task_type()).await?;
                let shards = u32::try_from(map.newest().count()).unwrap_or(u32::MAX);
                return Err(Error::FleetLimitOnShards { task_type, shards });
            }
            claimed => claimed?,
        };
        if claimed.bucket == BucketState::Drained {
            // The claim must not wait for the node with the registry.
            let (shards, bucket) = (Arc::clone(&self.shards), bucket.clone());
            self.cx.connections.spawn(async move {
                if let Err(error) = shards.drained(&bucket).await {
                    tracing::debug!(%bucket, %error,
                        "cannot remove a drained shard from the layout yet");
                }
            });
        }
        Ok(claimed)
    }

    async fn settle(
        &self,
        bucket: &Bucket,
        settlements: Vec<Settlement>,
    ) -> Result<Vec<SettleOutcome>> {
        self.shard(bucket)?.settle(&settlements).await
    }

    async fn extend(
        &self,
        bucket: &Bucket,
        locks: Vec<Lock>,
        lock_for: Duration,
    ) -> Result<Vec<ExtendOutcome>> {
        self.shard(bucket)?.extend(&locks, lock_for, false).await
    }

    async fn extend_alone(
        &self,
        bucket: &Bucket,
        lock: &Lock,
        lock_for: Duration,
    ) -> Result<ExtendOutcome> {
        let lock = std::slice::from_ref(lock);
        let outcomes = self.shard(bucket)?.extend(lock, lock_for, true).await?;
        Ok(outcomes.first().copied().unwrap_or(ExtendOutcome::LockLost))
    }

    async fn note_failure(&self, bucket: &Bucket, lock: &Lock, error: &str) -> Result<bool> {
        self.shard(bucket)?.note_failure(lock, error).await
    }

    async fn cancel(&self, task_type: &TaskType, id: &TaskId) -> Result<CancelOutcome> {
        let ask = |shard: Arc<Shard>| async move { shard.cancel(id).await };
        self.shards.lookup(task_type, id, ask).await
    }

    async fn reschedule(
        &self,
        task_type: &TaskType,
        id: &TaskId,
        when: When,
    ) -> Result<ChangeOutcome> {
        let ask = |shard: Arc<Shard>| async move { shard.reschedule(id, when).await };
        self.shards.lookup(task_type, id, ask).await
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
        let message = message.as_slice();
        let ask = |shard: Arc<Shard>| async move { shard.update(id, message, headers).await };
        self.shards.lookup(task_type, id, ask).await
    }

    async fn find(&self, task_type: &TaskType, id: &TaskId) -> Result<Option<TaskInfo>> {
        let ask = |shard: Arc<Shard>| async move { shard.find(id).await };
        self.shards.lookup(task_type, id, ask).await
    }

    fn wakeups(&self) -> Wakeups {
        self.cx.hub.subscribe()
    }
}
