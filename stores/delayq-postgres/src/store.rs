//! [`PostgresStore`], and its operations on tasks.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use delayq_core::job::{NewTask, When};
use delayq_core::name::{Namespace, TaskId, TaskType};
use delayq_core::store::{
    Bucket, CancelOutcome, ChangeOutcome, ClaimRequest, Claimed, Durability, ExtendOutcome,
    SettleOutcome, Settlement, Store, StoreOptions, SubmitOutcome, Wakeups,
};
use delayq_core::task::{Headers, Lock, TaskInfo};
use delayq_core::time::duration_ms;
use delayq_core::{Error, Result};

use crate::claim::Floors;
use crate::config::PostgresConfig;
use crate::connection::Connections;
use crate::statements::Statements;
use crate::submit::Submits;
use crate::upkeep::Upkeep;
use crate::wakes::Wakes;
use crate::{preflight, schema};

/// A store of tasks in a PostgreSQL database, shared by any number of instances.
///
/// Needs PostgreSQL 14 or newer. Its tables and functions are in a schema of their own, which the
/// first instance makes. Concurrent submits share transactions. Calls work from any tokio runtime:
/// a dedicated thread of the store drives its connections, and a lost one is renewed.
#[derive(Debug)]
pub struct PostgresStore {
    pub(crate) connections: Connections,
    pub(crate) statements: Statements,
    pub(crate) namespace: Namespace,
    pub(crate) retention: Duration,
    pub(crate) retention_ms: i64,
    pub(crate) wakes: Wakes,
    pub(crate) upkeep: Upkeep,
    submits: Submits,
    wanted: Durability,
    durability: Mutex<Durability>,
    locals: Mutex<HashMap<TaskType, Local>>,
}

/// What this process knows of a type.
#[derive(Debug, Default)]
struct Local {
    floors: Floors,
    /// Ends since the oldest ones were looked at.
    ends: usize,
}

impl PostgresStore {
    /// Connects to the server that a URL names ([`PostgresConfig`] has the form), as
    /// [`connect_with`](Self::connect_with) does.
    ///
    /// # Errors
    /// `InvalidInput` for a URL of another form; errors of `connect_with`.
    pub async fn connect(url: &str, options: StoreOptions) -> Result<Arc<Self>> {
        Self::connect_with(PostgresConfig::parse(url)?, options).await
    }

    /// Connects, checks that the server's settings fulfil the promises of the store, and makes the
    /// schema if it is missing.
    ///
    /// # Errors
    /// `Unavailable` if the server cannot be reached; `Misconfigured` with the line to change;
    /// `ReadOnly` for a standby; `Incompatible` for a schema of a newer release, which is not
    /// touched.
    pub async fn connect_with(config: PostgresConfig, options: StoreOptions) -> Result<Arc<Self>> {
        if tokio::runtime::Handle::try_current().is_err() {
            return Err(Error::NoRuntime);
        }
        let options = options.checked()?;
        let connections = Connections::start(&config, options.call_timeout)?;
        let statements = Statements::new(&config.schema);
        let durability = preflight::check(&connections, options.durability).await?;
        schema::prepare(&connections, &statements).await?;
        let namespace = options.namespace;
        let retention_ms = duration_ms(options.retention).min(i64::MAX / 4);
        let upkeep = Upkeep {
            sql: statements.clone(),
            namespace: namespace.to_string(),
            retention: options.retention,
            remembered: options.remembered,
        };
        let followed = upkeep.clone().follow(connections.downgrade());
        drop(connections.spawn(followed));
        let timeout = options.call_timeout;
        let name = namespace.as_str();
        Ok(Arc::new(Self {
            submits: Submits::new(&connections, &statements, (name, retention_ms), timeout),
            wakes: Wakes::start(&connections, &config, name),
            connections,
            statements,
            namespace,
            retention: options.retention,
            retention_ms,
            upkeep,
            wanted: options.durability,
            durability: Mutex::new(durability),
            locals: Mutex::default(),
        }))
    }

    /// A statement for the schema of this store.
    pub(crate) fn sql(&self, text: &'static str) -> Arc<str> {
        self.statements.sql(text)
    }

    /// The namespace and the name of a type.
    pub(crate) fn key(&self, task_type: &TaskType) -> (String, String) {
        (self.namespace.to_string(), task_type.to_string())
    }

    fn with_local<R>(&self, task_type: &TaskType, work: impl FnOnce(&mut Local) -> R) -> R {
        let mut locals = self.locals.lock().unwrap_or_else(PoisonError::into_inner);
        work(locals.entry(task_type.clone()).or_default())
    }

    pub(crate) fn with_floors<R>(
        &self,
        task_type: &TaskType,
        work: impl FnOnce(&mut Floors) -> R,
    ) -> R {
        self.with_local(task_type, |local| work(&mut local.floors))
    }

    /// Counts ends. True once there are more than `most` since the last time.
    pub(crate) fn count_ends(&self, task_type: &TaskType, ended: usize, most: usize) -> bool {
        self.with_local(task_type, |local| {
            local.ends += ended;
            let is_due = local.ends > most.max(1);
            if is_due {
                local.ends = 0;
            }
            is_due
        })
    }
}

#[async_trait]
impl Store for PostgresStore {
    fn name(&self) -> String {
        self.connections.place().to_owned()
    }

    fn namespace(&self) -> Option<&Namespace> {
        Some(&self.namespace)
    }

    fn durability(&self) -> Durability {
        *self
            .durability
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    async fn submit(&self, tasks: Vec<NewTask>) -> Vec<Result<SubmitOutcome>> {
        let types: Vec<TaskType> = tasks.iter().map(|task| task.task_type.clone()).collect();
        let outcomes = self.submits.submit(tasks).await;
        let mut first = HashMap::new();
        for (task_type, outcome) in types.iter().zip(&outcomes) {
            if let Ok(SubmitOutcome::Accepted { due_at, .. }) = outcome {
                let earliest = first.entry(task_type).or_insert(*due_at);
                *earliest = (*earliest).min(*due_at);
            }
        }
        for (task_type, due_at) in first {
            self.wakes.scheduled(task_type, due_at);
        }
        outcomes
    }

    async fn claim(&self, bucket: &Bucket, request: &ClaimRequest) -> Result<Claimed> {
        self.claim_from(bucket, request).await
    }

    async fn settle(
        &self,
        bucket: &Bucket,
        settlements: Vec<Settlement>,
    ) -> Result<Vec<SettleOutcome>> {
        self.settle_all(bucket.task_type(), settlements).await
    }

    async fn extend(
        &self,
        bucket: &Bucket,
        locks: Vec<Lock>,
        lock_for: Duration,
    ) -> Result<Vec<ExtendOutcome>> {
        self.extend_all(bucket.task_type(), locks, lock_for, false)
            .await
    }

    async fn extend_alone(
        &self,
        bucket: &Bucket,
        lock: &Lock,
        lock_for: Duration,
    ) -> Result<ExtendOutcome> {
        let locks = vec![lock.clone()];
        let outcomes = self
            .extend_all(bucket.task_type(), locks, lock_for, true)
            .await?;
        Ok(outcomes.first().copied().unwrap_or(ExtendOutcome::LockLost))
    }

    async fn note_failure(&self, bucket: &Bucket, lock: &Lock, error: &str) -> Result<bool> {
        self.note(bucket.task_type(), lock, error).await
    }

    async fn cancel(&self, task_type: &TaskType, id: &TaskId) -> Result<CancelOutcome> {
        self.cancel_one(task_type, id).await
    }

    async fn reschedule(
        &self,
        task_type: &TaskType,
        id: &TaskId,
        when: When,
    ) -> Result<ChangeOutcome> {
        self.move_one(task_type, id, when).await
    }

    async fn update(
        &self,
        task_type: &TaskType,
        id: &TaskId,
        message: Vec<u8>,
    ) -> Result<ChangeOutcome> {
        self.update_one(task_type, id, message, &Headers::new())
            .await
    }

    async fn update_with(
        &self,
        task_type: &TaskType,
        id: &TaskId,
        message: Vec<u8>,
        headers: &Headers,
    ) -> Result<ChangeOutcome> {
        self.update_one(task_type, id, message, headers).await
    }

    async fn find(&self, task_type: &TaskType, id: &TaskId) -> Result<Option<TaskInfo>> {
        self.find_one(task_type, id).await
    }

    fn wakeups(&self) -> Wakeups {
        self.wakes.subscribe()
    }

    async fn check(&self) -> Result<()> {
        let found = preflight::check(&self.connections, self.wanted).await?;
        schema::prepare(&self.connections, &self.statements).await?;
        *self
            .durability
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = found;
        Ok(())
    }

    async fn close(&self) {
        self.connections.close();
    }
}
