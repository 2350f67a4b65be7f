//! The store on a Redis server.
//!
//! One Lua script per edge, so that each edge is one atomic step; `lua/model.lua` says what is stored where.
//! Time is the server's. Reading order: [`keys`], `lua/model.lua`, [`scripts`], [`record`], then the edges on one
//! partition: [`submit`] with [`flight`], [`claim`], [`settle`], [`change`], [`query`], [`dead`], [`audit`]. Above
//! them is what makes partitions a type: [`layout`], [`registry`], then [`chain`] for submits, [`round`] for claims (in [`turns`], with [`permits`], and [`beside`] them),
//! [`seek`] for edges by id, [`every`] and [`meant`] for those of a whole type. Beneath them
//! [`client`], the only module that knows the crate `redis`.

use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use async_trait::async_trait;

mod audit;
mod beside;
mod chain;
mod change;
mod claim;
mod client;
mod config;
mod dead;
mod desk;
mod divide;
mod every;
mod flight;
#[cfg(test)]
mod fuzz;
mod instances;
mod keys;
mod layout;
mod meant;
mod merge;
mod permits;
mod placing;
mod preflight;
mod query;
mod record;
mod registry;
mod road;
mod room;
mod round;
mod scope;
mod scripts;
mod seek;
mod settle;
mod spread;
mod submit;
mod together;
mod turns;
mod unanswered;
mod visits;

pub use self::config::{Address, RedisConfig, RedisServers, ReplicaConfirm, Secret, TlsConfig};

use self::client::{Client, Command, Fields, Lane, Reply};
use self::keys::{KINDS, Partition};
use self::permits::Permits;
use self::preflight::Terms;
use self::room::Watermark;
use self::scope::Scope;
use self::submit::Submitter;
use self::unanswered::Unanswered;
use super::{
    AuditReport, CancelOutcome, ChangeOutcome, ClaimRequest, Claimed, Cursor, DeadFilter,
    Durability, ExtendOutcome, InstanceId, InstanceInfo, Page, SettleOutcome, Settlement, Store,
    StoreOptions, SubmitOutcome, TypeSettings, TypeStats, Wakeups,
};
use crate::error::{Error, Result};
use crate::job::{NewTask, When};
use crate::name::{TaskId, TaskType};
use crate::state::TaskState;
use crate::task::{Lock, TaskInfo};
use crate::time::Timestamp;

/// Tasks on a Redis server, which any number of instances share.
///
/// Needs Redis 7.0 or newer (or Valkey), `maxmemory-policy noeviction`, and an append-only file unless
/// [`Durability::Memory`] is asked for. Calls work from any tokio runtime: a thread of the store's own drives
/// its connections. A lost connection is made again for ever.
///
/// With `appendfsync everysec` the server hands each write to the operating system before it answers, but
/// for the moments in which a sync runs (each second, for as long as the disk takes, up to two seconds): what
/// is acknowledged then is in its memory alone, and lost if it crashes. `appendfsync always` has no such gap.
#[derive(Debug)]
pub struct RedisStore {
    /// For what goes on beside the calls of others.
    own: Weak<Self>,
    scope: Arc<Scope>,
    client: Client,
    submitter: Submitter,
    unanswered: Unanswered,
    permits: Permits,
    terms: Terms,
    durability: Mutex<Durability>,
}

impl RedisStore {
    /// Connects to the server that a URL names ([`RedisConfig`] has the forms), as
    /// [`connect_with`](Self::connect_with) does.
    ///
    /// # Errors
    /// `InvalidInput` for a URL of another form, which is not repeated; those of `connect_with`.
    pub async fn connect(url: &str, options: StoreOptions) -> Result<Arc<Self>> {
        Self::connect_with(RedisConfig::parse(url)?, options).await
    }

    /// Connects, and checks that the server keeps the promises as it is set up.
    ///
    /// # Errors
    /// `InvalidInput` for settings that do not go together or files that cannot be read, `Unavailable` when the
    /// server cannot be reached (a server that loads its data, and where masters are replaced a new one whose replicas
    /// do not follow it yet, is waited for, up to `options.call_timeout`),
    /// `Misconfigured` with the line to change, `ReadOnly` for a replica.
    pub async fn connect_with(config: RedisConfig, options: StoreOptions) -> Result<Arc<Self>> {
        config.check()?;
        let options = options.checked()?;
        let terms = Terms::new(&config, &options)?;
        let scope = Scope::new(options, config.is_cluster(), config.partition_patience);
        let channel = scope.keys.wake_channel();
        let timeout = scope.options.call_timeout;
        let deadline = Instant::now() + timeout;
        let is_replicated = scope.options.durability == Durability::Replicated;
        let client =
            Client::connect(&config, timeout, is_replicated, channel, scope.listener()).await?;
        let found = preflight::first_check(&client, &scope.keys, &terms, deadline).await?;
        found.warn_of_unseen(client.place());
        let watermark = config
            .memory_watermark
            .map(|share| Watermark::new(&client, share));
        let submitter = Submitter::start(&client, &scope, watermark);
        let store = Arc::new_cyclic(|own| Self {
            own: Weak::clone(own),
            scope,
            client,
            submitter,
            unanswered: Unanswered::default(),
            permits: Permits::default(),
            terms,
            durability: Mutex::new(found.durability),
        });
        if config.is_cluster() {
            let listening = registry::listen(Arc::downgrade(&store));
            store.client.spawn(listening);
        }
        Ok(store)
    }

    /// How long an answer is waited for that others have overtaken.
    fn patience(&self) -> Duration {
        self.scope.visits.patience
    }

    /// Runs a command on a type.
    async fn run(&self, lane: Lane, part: &Partition, command: Command) -> Result<Fields> {
        self.fields(part, self.client.call(lane, command).await)
            .await
    }

    /// The fields of an answer. One that fails as somebody else uses a key of the type names that key.
    async fn fields(&self, part: &Partition, answer: Result<Reply>) -> Result<Fields> {
        match answer {
            Ok(reply) => Ok(reply.fields()),
            Err(error @ Error::Corrupt { .. }) => Err(self.name_key(part, error).await),
            Err(error) => Err(error),
        }
    }

    /// Runs a command on the list of types.
    async fn call_list(&self, command: Command) -> Result<Fields> {
        let answer = self.client.call(Lane::Main, command).await;
        let answer = answer.map_err(|error| match error {
            Error::Corrupt { .. } => Error::Corrupt {
                key: self.scope.keys.types(),
                detail: "it is not a set: who else writes to `delayq:*`?".to_owned(),
            },
            error => error,
        });
        answer.map(client::Reply::fields)
    }

    async fn name_key(&self, part: &Partition, error: Error) -> Error {
        for (key, kind) in part.keys.iter().zip(KINDS) {
            let ask = Command::read(&["TYPE", key]).at(part.slot);
            let found = self
                .client
                .call(Lane::Main, ask)
                .await
                .map(client::Reply::fields);
            let found = found
                .and_then(|mut fields| fields.text())
                .unwrap_or_default();
            if !found.is_empty() && found != "none" && found != kind {
                let detail = format!(
                    "it is a {found}, not a {kind}: who else writes to `delayq:*`? DEL it, and an audit \
                     with repair builds it again"
                );
                return Error::Corrupt {
                    key: key.clone(),
                    detail,
                };
            }
        }
        error
    }
}

#[async_trait]
impl Store for RedisStore {
    fn name(&self) -> String {
        self.client.place().to_string()
    }

    fn durability(&self) -> Durability {
        *self
            .durability
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    async fn close(&self) {
        self.client.close();
    }

    async fn check(&self) -> Result<()> {
        let found = preflight::check(&self.client, &self.scope.keys, &self.terms).await?;
        *self
            .durability
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = found.durability;
        found.room
    }

    async fn submit(&self, tasks: Vec<NewTask>) -> Vec<Result<SubmitOutcome>> {
        if let Err(error) = self.client.check_open() {
            return vec![Err(error); tasks.len()];
        }
        self.submit_tasks(&tasks).await
    }

    async fn claim(&self, task_type: &TaskType, request: &ClaimRequest) -> Result<Claimed> {
        self.claim_tasks(task_type, request).await
    }

    async fn settle(
        &self,
        task_type: &TaskType,
        settlements: Vec<Settlement>,
    ) -> Result<Vec<SettleOutcome>> {
        self.settle_tasks(task_type, &settlements).await
    }

    async fn extend(
        &self,
        task_type: &TaskType,
        locks: Vec<Lock>,
        lock_for: Duration,
    ) -> Result<Vec<ExtendOutcome>> {
        self.extend_locks(task_type, &locks, lock_for).await
    }

    async fn cancel(&self, task_type: &TaskType, id: &TaskId) -> Result<CancelOutcome> {
        let ask = |part: Arc<Partition>| async move { self.cancel_task(&part, id).await };
        self.seek(task_type, id, ask).await
    }

    async fn reschedule(
        &self,
        task_type: &TaskType,
        id: &TaskId,
        when: When,
    ) -> Result<ChangeOutcome> {
        let ask = |part: Arc<Partition>| async move { self.reschedule_task(&part, id, when).await };
        self.seek(task_type, id, ask).await
    }

    async fn update(
        &self,
        task_type: &TaskType,
        id: &TaskId,
        message: Vec<u8>,
    ) -> Result<ChangeOutcome> {
        let message = message.as_slice();
        let ask = |part: Arc<Partition>| async move { self.update_task(&part, id, message).await };
        self.seek(task_type, id, ask).await
    }

    async fn find(&self, task_type: &TaskType, id: &TaskId) -> Result<Option<TaskInfo>> {
        let ask = |part: Arc<Partition>| async move { self.find_task(&part, id).await };
        self.seek(task_type, id, ask).await
    }

    async fn types(&self) -> Result<Vec<TaskType>> {
        self.all_types().await
    }

    async fn register_type(&self, task_type: &TaskType) -> Result<()> {
        self.call_list(self.scope.list_type(task_type)).await?;
        self.scope.set_listed(task_type);
        if let Some(news) = self.scope.announcement(task_type) {
            self.call_list(news).await?;
        }
        Ok(())
    }

    async fn configure_type(&self, task_type: &TaskType, settings: &TypeSettings) -> Result<()> {
        self.configure(task_type, settings).await
    }

    async fn stats(&self, task_type: &TaskType) -> Result<TypeStats> {
        self.type_stats(task_type).await
    }

    async fn list(
        &self,
        task_type: &TaskType,
        state: TaskState,
        cursor: Option<&Cursor>,
        limit: usize,
    ) -> Result<Page> {
        self.list_tasks(task_type, state, cursor, limit).await
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
        self.histogram(task_type, &query::bounds(from, to, steps))
            .await
    }

    async fn requeue_dead(
        &self,
        task_type: &TaskType,
        filter: &DeadFilter,
        interval: Duration,
    ) -> Result<Vec<TaskId>> {
        self.requeue(task_type, filter, interval).await
    }

    async fn discard_dead(&self, task_type: &TaskType, filter: &DeadFilter) -> Result<Vec<TaskId>> {
        self.discard(task_type, filter).await
    }

    async fn pause(&self, task_type: &TaskType, until: Option<Timestamp>) -> Result<()> {
        self.set_pause(task_type, until.unwrap_or(Timestamp::MAX))
            .await
    }

    async fn resume(&self, task_type: &TaskType) -> Result<()> {
        self.set_pause(task_type, Timestamp::ZERO).await
    }

    async fn purge(&self, task_type: &TaskType, state: TaskState) -> Result<u64> {
        self.purge_tasks(task_type, state).await
    }

    async fn audit(&self, task_type: &TaskType, repair: bool) -> Result<AuditReport> {
        self.audit_type(task_type, repair).await
    }

    async fn announce(&self, instance: &InstanceInfo, holds: Duration) -> Result<()> {
        self.announce_instance(instance, holds).await
    }

    async fn withdraw(&self, id: &InstanceId) -> Result<()> {
        self.withdraw_instance(id).await
    }

    async fn instances(&self) -> Result<Vec<InstanceInfo>> {
        self.list_instances().await
    }

    fn wakeups(&self) -> Wakeups {
        Wakeups::new(self.scope.wakeups.subscribe())
    }
}
