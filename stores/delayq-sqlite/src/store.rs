//! [`SqliteStore`] and its operations on tasks, as calls to the engine.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use delayq_core::error::Result;
use delayq_core::job::{NewTask, When};
use delayq_core::name::{Namespace, TaskId, TaskType};
use delayq_core::store::{
    Bucket, CancelOutcome, ChangeOutcome, ClaimRequest, Claimed, Durability, ExtendOutcome,
    SettleOutcome, Settlement, Store, StoreOptions, SubmitOutcome, Wakeups, cut_error,
};
use delayq_core::task::{Headers, Lock, TaskInfo};
use delayq_core::time::Clock;
use rusqlite::Connection;

use crate::commit::{Engine, Lane, Size};
use crate::connection::sync::SqliteSync;
use crate::error::Outcome;
use crate::operations::{change, ends, query, replies, settle, submit};
use crate::rows::{Context, Tx, TypeTasks};
use crate::schema;
use crate::transaction::SqliteTransaction;

/// Maximum number of tasks in one submit or settle step: some milliseconds of work. Larger batches
/// are split.
const STEP_TASKS: usize = 1_000;

/// Maximum size of the messages of one submit step in bytes, so that steps with large messages are
/// short, too.
const STEP_BYTES: usize = 4 << 20;

/// The SQLite store: tasks in one file.
///
/// An acknowledged call has been synced to disk ([`SqliteSync::Full`], the default); concurrent
/// calls share a sync. Several stores, in one process or many, may open the same file, each for a
/// namespace of its own or for the same. The file has to be on a local disk.
///
/// The folder also has the file's log (`-wal`), the index of the log (`-shm`) and a reserve of up
/// to 20 MiB (`-reserve`). On a full disk the reserve is deleted, and only new tasks are refused
/// until there is room for it again. New files are readable only for their owner.
///
/// Dropping the future of a call does not cancel the call: it may still be applied. A claim whose
/// caller is gone is undone.
#[derive(Debug)]
pub struct SqliteStore {
    pub(crate) engine: Engine,
    durability: Durability,
    namespace: Namespace,
    context: Context,
    path: PathBuf,
}

impl SqliteStore {
    /// Opens the file at `path`. Creates it and its folder if they do not exist. Acknowledgements
    /// survive a power loss.
    ///
    /// # Errors
    /// `Misconfigured`, `ReadOnly`, `Corrupt`, `Incompatible` name the problem with the file and
    /// what to do. A file of another application, or a damaged one, is not changed. `Unavailable`
    /// if another program keeps it locked for longer than a call may take.
    pub async fn open(
        path: impl AsRef<Path>,
        clock: Arc<dyn Clock>,
        options: StoreOptions,
    ) -> Result<Arc<Self>> {
        Self::open_with(path, clock, options, SqliteSync::Full).await
    }

    /// Opens a file like [`open`](Self::open), with the syncing given by `sync`.
    ///
    /// # Errors
    /// As [`open`](Self::open); also `Misconfigured` if `sync` cannot provide the requested
    /// durability.
    pub async fn open_with(
        path: impl AsRef<Path>,
        clock: Arc<dyn Clock>,
        options: StoreOptions,
        sync: SqliteSync,
    ) -> Result<Arc<Self>> {
        let path = path.as_ref().to_owned();
        let store = format!("sqlite:{}", path.display());
        if tokio::runtime::Handle::try_current().is_err() {
            return Err(delayq_core::error::Error::NoRuntime);
        }
        let options = options.checked()?;
        sync.check(options.durability, &store)?;
        let context = Context {
            store,
            clock,
            namespace: options.namespace.clone(),
            retention: options.retention,
            remembered: options.remembered,
        };
        let started = Engine::start(path.clone(), sync, context.clone(), options.call_timeout);
        let engine = started.await?;
        if let Some(bytes) = options.history_buffer {
            let set = move |tx: &mut Tx<'_>| ends::set_limit(tx, bytes);
            engine.write(Lane::Operations, Size::ONE, set).await?;
        }
        let durability = sync.durability();
        let namespace = options.namespace;
        Ok(Arc::new(Self {
            engine,
            durability,
            namespace,
            context,
            path,
        }))
    }

    /// A transaction of the application, begun on a connection of its own to the same file, to send
    /// and change tasks in it. Begin it as `IMMEDIATE`: another one fails with `Unavailable` if
    /// somebody has written since it began.
    ///
    /// # Errors
    /// `InvalidInput` if no transaction is open, or the connection is to another file.
    pub fn within<'a>(&'a self, transaction: &'a Connection) -> Result<SqliteTransaction<'a>> {
        SqliteTransaction::new(&self.context, &self.path, transaction)
    }

    /// Runs `operation` on a type, which is created if it is new.
    pub(crate) async fn edit(
        &self,
        task_type: &TaskType,
        mut operation: impl FnMut(&mut TypeTasks<'_>) + Send + 'static,
    ) -> Result<()> {
        let task_type = task_type.clone();
        let operation = move |tx: &mut Tx<'_>| {
            operation(&mut tx.made(&task_type)?);
            Ok(())
        };
        let lane = Lane::Operations;
        self.engine.write(lane, Size::ONE, operation).await
    }

    /// Runs `operation` on a type; a type without a row reads as empty.
    pub(crate) async fn edit_known<R: Send + 'static>(
        &self,
        task_type: &TaskType,
        size: Size,
        mut operation: impl FnMut(&mut TypeTasks<'_>) -> Outcome<R> + Send + 'static,
    ) -> Result<R> {
        let task_type = task_type.clone();
        let operation = move |tx: &mut Tx<'_>| operation(&mut tx.known(&task_type)?);
        self.engine.write(Lane::Operations, size, operation).await
    }

    /// Reads a type; a type without a row reads as empty.
    pub(crate) async fn query<R: Send + 'static>(
        &self,
        task_type: &TaskType,
        mut query: impl FnMut(&mut TypeTasks<'_>) -> Outcome<R> + Send + 'static,
    ) -> Result<R> {
        let task_type = task_type.clone();
        let query = move |tx: &mut Tx<'_>| query(&mut tx.known(&task_type)?);
        self.engine.read(query).await
    }

    /// Runs `operation` on each item of a batch, one step at a time.
    async fn edit_each<T: Send + 'static, R: Send + 'static>(
        &self,
        bucket: &Bucket,
        batch: Vec<T>,
        operation: impl Fn(&mut TypeTasks<'_>, &T) -> Outcome<R> + Clone + Send + 'static,
    ) -> Result<Vec<R>> {
        let mut outcomes = Vec::with_capacity(batch.len());
        let mut rest = batch.into_iter();
        loop {
            let step: Vec<T> = rest.by_ref().take(STEP_TASKS).collect();
            if step.is_empty() {
                return Ok(outcomes);
            }
            let size = Size::tasks(step.len());
            let operation = operation.clone();
            let each = move |tasks: &mut TypeTasks<'_>| -> Outcome<Vec<R>> {
                step.iter().map(|one| operation(tasks, one)).collect()
            };
            outcomes.append(&mut self.edit_known(bucket.task_type(), size, each).await?);
        }
    }

    /// Submits one step of a batch.
    async fn submit_step(&self, tasks: Vec<NewTask>) -> Vec<Result<SubmitOutcome>> {
        let count = tasks.len();
        if count == 0 {
            return Vec::new();
        }
        let bytes = tasks.iter().map(|task| task.message.len()).sum();
        let size = Size {
            tasks: count,
            bytes,
        };
        let operation = move |tx: &mut Tx<'_>| -> Outcome<Vec<Result<SubmitOutcome>>> {
            tasks.iter().map(|task| submit::submit(tx, task)).collect()
        };
        match self.engine.write(Lane::Submits, size, operation).await {
            Ok(outcomes) => outcomes,
            Err(error) => vec![Err(error); count],
        }
    }
}

#[async_trait]
impl Store for SqliteStore {
    fn name(&self) -> String {
        self.engine.store().to_owned()
    }

    fn namespace(&self) -> Option<&Namespace> {
        Some(&self.namespace)
    }

    fn durability(&self) -> Durability {
        self.durability
    }

    async fn submit(&self, tasks: Vec<NewTask>) -> Vec<Result<SubmitOutcome>> {
        let mut outcomes = Vec::with_capacity(tasks.len());
        let mut steps = steps(tasks).into_iter();
        while let Some(step) = steps.next() {
            // While one step is written, the next is already in the queue.
            let next = steps.next().unwrap_or_default();
            let (mut done, mut more) = tokio::join!(self.submit_step(step), self.submit_step(next));
            outcomes.append(&mut done);
            outcomes.append(&mut more);
        }
        outcomes
    }

    async fn claim(&self, bucket: &Bucket, request: &ClaimRequest) -> Result<Claimed> {
        self.engine
            .claim(bucket.task_type().clone(), request.clone())
            .await
    }

    async fn settle(
        &self,
        bucket: &Bucket,
        settlements: Vec<Settlement>,
    ) -> Result<Vec<SettleOutcome>> {
        self.edit_each(bucket, settlements, settle::settle).await
    }

    async fn extend(
        &self,
        bucket: &Bucket,
        locks: Vec<Lock>,
        lock_for: Duration,
    ) -> Result<Vec<ExtendOutcome>> {
        let extend = move |tasks: &mut TypeTasks<'_>, lock: &Lock| {
            let until = tasks.now.plus(lock_for);
            settle::extend(tasks, lock, until, false)
        };
        self.edit_each(bucket, locks, extend).await
    }

    async fn extend_alone(
        &self,
        bucket: &Bucket,
        lock: &Lock,
        lock_for: Duration,
    ) -> Result<ExtendOutcome> {
        let lock = lock.clone();
        let operation = move |tasks: &mut TypeTasks<'_>| {
            let until = tasks.now.plus(lock_for);
            settle::extend(tasks, &lock, until, true)
        };
        self.edit_known(bucket.task_type(), Size::ONE, operation)
            .await
    }

    async fn note_failure(&self, bucket: &Bucket, lock: &Lock, error: &str) -> Result<bool> {
        let (lock, error) = (lock.clone(), cut_error(error).to_owned());
        let operation = move |tasks: &mut TypeTasks<'_>| settle::note_failure(tasks, &lock, &error);
        self.edit_known(bucket.task_type(), Size::ONE, operation)
            .await
    }

    async fn cancel(&self, task_type: &TaskType, id: &TaskId) -> Result<CancelOutcome> {
        let id = id.clone();
        let operation = move |tasks: &mut TypeTasks<'_>| change::cancel(tasks, &id);
        self.edit_known(task_type, Size::ONE, operation).await
    }

    async fn reschedule(
        &self,
        task_type: &TaskType,
        id: &TaskId,
        when: When,
    ) -> Result<ChangeOutcome> {
        let id = id.clone();
        let operation = move |tasks: &mut TypeTasks<'_>| change::reschedule(tasks, &id, when);
        self.edit_known(task_type, Size::ONE, operation).await
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
        let size = Size {
            tasks: 1,
            bytes: message.len(),
        };
        let (id, headers) = (id.clone(), headers.clone());
        let operation =
            move |tasks: &mut TypeTasks<'_>| change::update(tasks, &id, &message, &headers);
        self.edit_known(task_type, size, operation).await
    }

    async fn find(&self, task_type: &TaskType, id: &TaskId) -> Result<Option<TaskInfo>> {
        let id = id.clone();
        let find = move |tasks: &mut TypeTasks<'_>| query::find(tasks, &id);
        self.query(task_type, find).await
    }

    fn wakeups(&self) -> Wakeups {
        self.engine.wakeups()
    }

    async fn check(&self) -> Result<()> {
        let check = |tx: &mut Tx<'_>| {
            replies::remove_old(tx)?;
            schema::check_settings(tx.connection, &tx.context.store)
        };
        self.engine.write(Lane::Operations, Size::ONE, check).await
    }

    /// Leaves the file without its log and reserve. Dropping the store does the same in the
    /// background.
    async fn close(&self) {
        self.engine.close();
        self.engine.closed().await;
    }
}

/// Splits a batch into steps, by number of tasks and by size.
pub(crate) fn steps(tasks: Vec<NewTask>) -> Vec<Vec<NewTask>> {
    let mut steps: Vec<Vec<NewTask>> = Vec::new();
    let mut bytes = 0;
    for task in tasks {
        bytes += task.message.len();
        match steps.last_mut() {
            Some(step) if step.len() < STEP_TASKS && bytes <= STEP_BYTES => step.push(task),
            _ => {
                bytes = task.message.len();
                steps.push(vec![task]);
            }
        }
    }
    steps
}
