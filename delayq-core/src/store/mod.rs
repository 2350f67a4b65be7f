//! The store contract: what every store does, one atomic step a method.
//!
//! The edges of a task: [`submit`](Store::submit) · [`claim`](Store::claim) ·
//! [`settle`](Store::settle) · [`extend`](Store::extend) · [`cancel`](Store::cancel) ·
//! [`reschedule`](Store::reschedule) · [`update`](Store::update).
//!
//! ```text
//!                  claim                    settle Done
//!   Scheduled ----------------> Running ----------------> done
//!     |  ^  ^                     | |
//!     |  |  +--- Retry, Release --+ +--- Dead, poison ---> Dead ---> (discarded)
//!     |  |                                                  |
//!     |  +------------------- requeue ---------------------+
//!     +--- cancel ---> cancelled        +--- expiry ---> expired
//! ```
//!
//! The idea that carries the whole thing: **`claim` does all the work that is due and returns when to
//! call again.** It takes expired locks first, then due tasks, in one step. So there is no reaper, no
//! pump, no ready list and no second thread.

use std::fmt::Debug;
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::broadcast;

mod claimed;
mod edge;
mod instance;
mod memory;
mod pace;
#[cfg(feature = "redis")]
mod redis;
mod settings;
#[cfg(feature = "sqlite")]
mod sqlite;

use crate::error::Result;
use crate::job::{NewTask, When};
use crate::name::{TaskId, TaskType};
use crate::state::TaskState;
use crate::task::{Lock, TaskInfo};
use crate::time::Timestamp;

pub use claimed::*;
pub use edge::*;
pub use instance::{
    ANNOUNCE_INTERVAL, INSTANCE_EXPIRY, InstanceId, InstanceInfo, MAX_INSTANCE_TYPES, MAX_INSTANCES,
};
pub use memory::MemoryStore;
#[cfg(feature = "redis")]
pub use redis::{
    Address, RedisConfig, RedisServers, RedisStore, ReplicaConfirm, Secret, TlsConfig,
};
pub use settings::{MAX_PARTITIONS, Setting, TypeSettings};
#[cfg(feature = "sqlite")]
pub use sqlite::{SqliteStore, SqliteSync};

/// A stream of wake-ups. A hint: a handler that misses one finds the task with its next poll.
#[derive(Debug)]
pub struct Wakeups {
    receiver: broadcast::Receiver<Wakeup>,
}

impl Wakeups {
    /// Wraps the receiving end of a store's wake-up channel.
    #[must_use]
    pub fn new(receiver: broadcast::Receiver<Wakeup>) -> Self {
        Self { receiver }
    }

    /// The next wake-up; `None` once the store is gone.
    pub async fn next(&mut self) -> Option<Wakeup> {
        match self.receiver.recv().await {
            Ok(wakeup) => Some(wakeup),
            Err(broadcast::error::RecvError::Lagged(_)) => Some(Wakeup::All),
            Err(broadcast::error::RecvError::Closed) => None,
        }
    }
}

/// Where tasks live. One instance serves one namespace.
///
/// Each method is one atomic step (a batch: one step for up to [`MAX_BATCH`] tasks of a type); what its
/// documentation says holds once it returns `Ok`. Of a type that is split ([`TypeSettings::partitions`]) each
/// partition is a step of its own: order, fences and limits hold within each. Every method returns within a
/// bounded time of the store's own choosing, and may be called from any tokio runtime and dropped at any point.
///
/// # Errors
/// Every method: `Unavailable`, `Full`, `ReadOnly`, `Closed` mean certainly not applied;
/// `Indeterminate` means that the answer was lost: repeat the call, every edge is idempotent by the
/// task's id and the lock's fence. `Corrupt` and `Incompatible` name the damaged key. Nothing panics.
#[async_trait]
pub trait Store: Send + Sync + Debug + 'static {
    /// A name for logs and errors: the kind and the place, without secrets.
    fn name(&self) -> String;

    /// What an acknowledgement of this store survives, as configured and verified.
    fn durability(&self) -> Durability;

    /// Reads the store's real state and settings; `Ok` when it can keep the promises now. For health.
    async fn check(&self) -> Result<()>;

    /// Accepts tasks; one result each, in order. An accepted task will end in exactly one of done,
    /// dead, cancelled, expired, and is as durable as [`durability`](Self::durability) says. Its type is
    /// in [`types`](Self::types). A relative delay counts from the store's clock.
    ///
    /// An id that is taken is decided by the task's `on_conflict`, after the same request (message,
    /// headers, expiry, delay or time) has been answered `AlreadyExists`. An ended id is taken only for
    /// the same request, within the retention, and not with `Replace`: anything else is accepted as new.
    ///
    /// A new task of a type that has as many scheduled tasks as its `max_pending` is refused with `QueueFull`;
    /// one that takes the place of another is not.
    async fn submit(&self, tasks: Vec<NewTask>) -> Vec<Result<SubmitOutcome>>;

    /// Locks what is due, in one step: first tasks whose lock has expired (attempt + 1, one lock expiry
    /// counted), then due ones, by due time and id. Nothing while the type is paused. Each lock has a
    /// fence larger than any the task had before, and lasts `lock_for` from the store's now. Tasks past
    /// their expiry, poison tasks and damaged records are ended and reported instead.
    ///
    /// The limits of the fleet that the request has hold in this step, over all claimers. Concurrency: of due
    /// tasks, so many are locked that no more than the limit run; a lock that is taken over keeps its place.
    /// Rate: at most as many tasks as it allows now are handed out, taken over or due.
    ///
    /// What a claim took whose answer was lost stays locked until the locks expire, unless the store can
    /// tell: then its next claim gives it back first, with no attempt counted.
    async fn claim(&self, task_type: &TaskType, request: &ClaimRequest) -> Result<Claimed>;

    /// Ends attempts; one outcome each, in order. Only the fence of the present lock counts: an expired
    /// lock that nobody has taken over still settles, a stale one changes nothing. Repeating a
    /// settlement answers `Settled` again (a done task: within the retention).
    ///
    /// A store of several parts, some of which give no answer, answers `Unknown` for what is there, so that the
    /// others need not wait; it fails when no outcome is known.
    async fn settle(
        &self,
        task_type: &TaskType,
        settlements: Vec<Settlement>,
    ) -> Result<Vec<SettleOutcome>>;

    /// Makes locks last `lock_for` from the store's now; one outcome each, in order. Only the fence of
    /// the present lock counts, and an outcome may be `Unknown`, as for [`settle`](Self::settle).
    async fn extend(
        &self,
        task_type: &TaskType,
        locks: Vec<Lock>,
        lock_for: Duration,
    ) -> Result<Vec<ExtendOutcome>>;

    /// Cancels a scheduled task: it never starts (again). A running one is marked: [`extend`](Self::extend)
    /// tells its holder, and whatever but `Done` ends the attempt, no other follows.
    async fn cancel(&self, task_type: &TaskType, id: &TaskId) -> Result<CancelOutcome>;

    /// Moves a scheduled task to another time, earlier or later. Its attempts so far stay counted.
    async fn reschedule(
        &self,
        task_type: &TaskType,
        id: &TaskId,
        when: When,
    ) -> Result<ChangeOutcome>;

    /// Replaces the message of a scheduled task; headers, expiry and due time stay.
    async fn update(
        &self,
        task_type: &TaskType,
        id: &TaskId,
        message: Vec<u8>,
    ) -> Result<ChangeOutcome>;

    /// What is known of a task; an ended one is known until its retention is over. Answers truly right
    /// after the edge it follows.
    async fn find(&self, task_type: &TaskType, id: &TaskId) -> Result<Option<TaskInfo>>;

    /// Every type that was registered or had a task submitted, sorted. A type stays listed.
    async fn types(&self) -> Result<Vec<TaskType>>;

    /// Lists a type before its first task.
    async fn register_type(&self, task_type: &TaskType) -> Result<()>;

    /// Changes settings of a type, for everybody who uses this data, at once. The type need not be known; it is
    /// not listed by this.
    async fn configure_type(&self, task_type: &TaskType, settings: &TypeSettings) -> Result<()>;

    /// Counts of a type; an unknown type counts nothing. O(log n).
    async fn stats(&self, task_type: &TaskType) -> Result<TypeStats>;

    /// Up to `limit` (at most [`MAX_BATCH`]) tasks in `state`, after `cursor`, by their `at` and id.
    ///
    /// # Errors
    /// `InvalidInput` for the ended states, which only [`find`](Self::find) answers.
    async fn list(
        &self,
        task_type: &TaskType,
        state: TaskState,
        cursor: Option<&Cursor>,
        limit: usize,
    ) -> Result<Page>;

    /// How many scheduled tasks are due in each of `steps` (1 to 1,000) equal parts of `from..to`.
    ///
    /// # Errors
    /// `InvalidInput` when `to` is not after `from` or `steps` is out of range.
    async fn due_histogram(
        &self,
        task_type: &TaskType,
        from: Timestamp,
        to: Timestamp,
        steps: usize,
    ) -> Result<Vec<u64>>;

    /// Schedules dead tasks again with their attempts counted anew, in order of death (or of the ids
    /// given): the first due now, each next one `interval` later. Returns which.
    async fn requeue_dead(
        &self,
        task_type: &TaskType,
        filter: &DeadFilter,
        interval: Duration,
    ) -> Result<Vec<TaskId>>;

    /// Removes dead tasks for good. Returns which.
    async fn discard_dead(&self, task_type: &TaskType, filter: &DeadFilter) -> Result<Vec<TaskId>>;

    /// Claims hand out nothing of the type until `until`, or until [`resume`](Self::resume) when `None`.
    /// Running tasks go on; their locks can be extended and settled.
    async fn pause(&self, task_type: &TaskType, until: Option<Timestamp>) -> Result<()>;

    /// Ends a pause at once.
    async fn resume(&self, task_type: &TaskType) -> Result<()>;

    /// Removes every task of the type that is in `state` (scheduled or dead), or forgets the ended ones
    /// in it (done, cancelled, expired). Returns how many. Not one step: in batches.
    ///
    /// # Errors
    /// `InvalidInput` for running tasks: cancel them instead.
    async fn purge(&self, task_type: &TaskType, state: TaskState) -> Result<u64>;

    /// Proves the structure of the type: every id in exactly one state, indexes and records one to one,
    /// checksums right, locks only on running tasks. With `repair` it mends what it can so that no task
    /// is lost: what cannot run goes to dead, what has lost its place is scheduled. In batches.
    async fn audit(&self, task_type: &TaskType, repair: bool) -> Result<AuditReport>;

    /// Lists an instance, for people, until it has been silent for `holds`; a repeated announcement takes the
    /// place of the one before. `seen_at` is the store's now, whatever the announcement says. Forgets others
    /// that have been silent for too long.
    async fn announce(&self, instance: &InstanceInfo, holds: Duration) -> Result<()>;

    /// Lists an instance no more.
    async fn withdraw(&self, id: &InstanceId) -> Result<()>;

    /// The instances that are there, by their identities, so in the order of their starts; at most
    /// [`MAX_INSTANCES`].
    async fn instances(&self) -> Result<Vec<InstanceInfo>>;

    /// Takes no more calls, finishes those under way and leaves everything tidy; later calls answer
    /// `Closed`. A store that has nothing to tidy does nothing. Not needed for safety: a store that is
    /// never closed, or killed, loses nothing either.
    async fn close(&self) {}

    /// Types whose first task became earlier, whose pause ended, or in which a place became free that a claim
    /// had missed, by anybody this store hears of.
    fn wakeups(&self) -> Wakeups;
}
