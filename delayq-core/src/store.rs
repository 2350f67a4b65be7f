//! The store contract: submit, claim, settle, extend, and the operations on one task by its id.
//!
//! ```text
//!                  claim                    settle Done
//!   Scheduled ----------------> Running ----------------> done
//!     |  ^  ^                     | |
//!     |  |  +--- Retry, Release --+ +--- Dead, poison ---> Dead ---> (discarded)
//!     |  |                                                  |
//!     |  +------------------- requeue ----------------------+
//!     +--- cancel ---> cancelled        +--- expiry ---> expired
//! ```
//!
//! Its central idea: **`claim` does all the work that is due and returns when to call again.** It
//! takes expired locks first, then due tasks, in one step. So there is no reaper, no pump, no ready
//! list and no second thread.
//!
//! Operators' methods are in [`Operate`], the list of running instances in [`Presence`], figures
//! and the log of operators' actions in [`Chronicle`], workers' answers in [`Replies`], the records
//! of tasks that ended in [`Ends`].

use std::fmt::Debug;
use std::time::Duration;

use async_trait::async_trait;

mod bucket;
mod claim;
mod concern;
mod layer;
mod options;
mod outcome;
mod retention;
mod sql_place;
mod wakeup;

pub use bucket::{Bucket, BucketState};
pub use claim::{CLOCK_GUARD, ClaimEnd, ClaimRequest, Claimed, EndCause, MAX_BATCH, MAX_UNCOUNTED};
pub use concern::Concern;
pub use layer::{Layer, StoreCall};
pub use options::{
    DEFAULT_REMEMBERED, DEFAULT_RETENTION, Durability, MAX_CALL_TIMEOUT, MAX_REMEMBERED,
    StoreOptions,
};
pub use outcome::{
    AttemptEnd, CancelOutcome, ChangeOutcome, EndKind, ExtendOutcome, MAX_ERROR_BYTES,
    MAX_NOTE_BYTES, SettleOutcome, Settlement, SubmitOutcome, cut_error,
};
pub use retention::warn_of_early_forgetting;
pub use sql_place::SqlPlace;
pub use wakeup::{Wakeup, Wakeups};

use crate::chronicle::Chronicle;
use crate::documents::Documents;
use crate::error::{Error, Result};
use crate::history::Ends;
use crate::job::{NewTask, When};
use crate::name::{Namespace, TaskId, TaskType};
use crate::operate::Operate;
use crate::presence::Presence;
use crate::replies::Replies;
use crate::task::{Headers, Lock, TaskInfo};

/// A store of tasks. One instance serves one namespace.
///
/// Each method is one atomic step (for a batch: one step for up to [`MAX_BATCH`] tasks of a
/// bucket). Its documented effect holds once it returns `Ok`. A method returns within a time limit
/// of the store, works on any tokio runtime, and may be dropped at any point.
///
/// # Errors
/// `Unavailable`, `Full`, `ReadOnly` and `Closed` mean certainly not applied. `Indeterminate` means
/// in doubt: the answer was lost. It is safe to repeat the call: every operation is idempotent by
/// the task's id and the lock's fence. `Corrupt` and `Incompatible` name the damaged key. Nothing
/// panics.
#[async_trait]
pub trait Store:
    Operate + Presence + Chronicle + Documents + Replies + Ends + Send + Sync + Debug + 'static
{
    /// The kind and place of the store, without secrets, for logs and errors.
    fn name(&self) -> String;

    /// The namespace of the store, if it has one.
    fn namespace(&self) -> Option<&Namespace> {
        None
    }

    /// Where a SQL database takes calls for this store's tasks, so that they can be made in a
    /// transaction of the application; `None` if no database does.
    fn sql_place(&self) -> Option<SqlPlace> {
        None
    }

    /// True if a type may have several shards here. Without it the store keeps a type in one place,
    /// and takes no number of shards.
    fn has_shards(&self) -> bool {
        false
    }

    /// What an acknowledgement of this store survives, as configured and verified.
    fn durability(&self) -> Durability;

    /// Accepts tasks; one result for each, in order. An accepted task ends as exactly one of done,
    /// dead, cancelled and expired. It is as durable as [`durability`](Self::durability) says, and
    /// its type is in [`types`](Operate::types). A relative delay counts from the store's clock.
    ///
    /// A repeat of the same request (message, headers, expiry, delay or time) is answered
    /// `AlreadyExists`, except for a `Replace` with a delay, or a `Debounce`, of a scheduled or
    /// dead task. For a different request with an existing id, its `on_conflict` decides. The id of
    /// an ended task counts as existing only for the same request, within the retention, and not
    /// with `Replace`, `Debounce` or `again_if_running`.
    ///
    /// With `again_if_running` the answer for a running task is `RunsAgain`: the request waits
    /// beside it, replacing an earlier one (with `Keep` the earlier one stays). In the step in
    /// which the task becomes done, dead or expired, the request becomes a new task under the id,
    /// due not before that moment. A cancel or purge of the task drops the request, and so does a
    /// task that replaces it.
    ///
    /// A new task beyond its type's `max_pending` is refused with `QueueFull`. A replaced one is
    /// not.
    async fn submit(&self, tasks: Vec<NewTask>) -> Vec<Result<SubmitOutcome>>;

    /// The buckets of a type: one, or one for each shard. A separate loop claims from each. Until a
    /// resize is complete they include the old shards that are still draining.
    async fn buckets(&self, task_type: &TaskType) -> Result<Vec<Bucket>> {
        Ok(vec![Bucket::whole(task_type.clone())])
    }

    /// Locks due tasks, in one step: first tasks whose lock has expired (attempt + 1, one lock
    /// expiry counted, unless the request counts only [its own](ClaimRequest::counts_own_only)),
    /// then due ones, by due time and id. Locks none while the type is paused.
    /// Each lock has a larger fence than any earlier lock of its task and lasts `lock_for` from the
    /// store's present time. Tasks past their expiry, poison tasks and damaged records are ended
    /// and reported instead.
    ///
    /// The fleet limits of the request hold in this step, over all claimers. Concurrency: due tasks
    /// are locked only while fewer than the limit run; a lock that is taken over keeps its slot.
    /// Rate: no more tasks than it allows now are handed out, whether due or taken over.
    ///
    /// A claim whose answer was lost may have locked tasks. They stay locked until their locks
    /// expire, unless the store notices: then its next claim returns them to the bucket without
    /// counting an attempt.
    async fn claim(&self, bucket: &Bucket, request: &ClaimRequest) -> Result<Claimed>;

    /// Ends attempts; one outcome for each, in order. Only the fence of the present lock counts: an
    /// expired lock that nobody has taken over still settles, a stale one changes nothing. A
    /// repeated settlement is answered `Settled` again (for a done task: within the retention), as
    /// long as its lock is the last one that was settled and the end is of the same
    /// [kind](EndKind). Any other end is answered `LockLost`. A lock is settled in the bucket that
    /// it was claimed from.
    async fn settle(
        &self,
        bucket: &Bucket,
        settlements: Vec<Settlement>,
    ) -> Result<Vec<SettleOutcome>>;

    /// Makes locks last `lock_for` from the store's present time; one outcome for each, in order.
    /// Only the fence of the present lock counts.
    async fn extend(
        &self,
        bucket: &Bucket,
        locks: Vec<Lock>,
        lock_for: Duration,
    ) -> Result<Vec<ExtendOutcome>>;

    /// Like [`extend`](Self::extend) for one lock, and marks it: its holder runs this task and no
    /// other, until it extends the lock by `extend`. If a marked lock expires, the task itself has
    /// probably ended its process, see [`ClaimRequest::max_alone_expiries`]. A store without this
    /// operation extends the lock and marks nothing.
    async fn extend_alone(
        &self,
        bucket: &Bucket,
        lock: &Lock,
        lock_for: Duration,
    ) -> Result<ExtendOutcome> {
        let outcomes = self.extend(bucket, vec![lock.clone()], lock_for).await?;
        Ok(outcomes.first().copied().unwrap_or(ExtendOutcome::LockLost))
    }

    /// Records the error of the attempt with `lock`, for a task that was settled as done before it
    /// started (at most once). While the end is remembered, `find` shows it as the last error, cut
    /// to 200 bytes or more. Returns true if it was recorded, and false if the end is forgotten,
    /// belongs to another lock, or has an error already. A store without this operation records
    /// nothing.
    async fn note_failure(&self, bucket: &Bucket, lock: &Lock, error: &str) -> Result<bool> {
        let _ = (bucket, lock, error);
        Ok(false)
    }

    /// Cancels a scheduled task: it never starts (again). A running task is marked:
    /// [`extend`](Self::extend) tells its holder, and any end except `Done` ends it as cancelled.
    async fn cancel(&self, task_type: &TaskType, id: &TaskId) -> Result<CancelOutcome>;

    /// Moves a scheduled task to another time, earlier or later. Its attempts are kept.
    async fn reschedule(
        &self,
        task_type: &TaskType,
        id: &TaskId,
        when: When,
    ) -> Result<ChangeOutcome>;

    /// Replaces the message of a scheduled task; headers, expiry and due time are kept.
    async fn update(
        &self,
        task_type: &TaskType,
        id: &TaskId,
        message: Vec<u8>,
    ) -> Result<ChangeOutcome>;

    /// Like [`update`](Self::update), and in the same step sets new values for headers that the
    /// task has. Headers that it does not have are not added.
    ///
    /// # Errors
    /// `Unsupported` from a store without this operation; and as for every operation.
    async fn update_with(
        &self,
        task_type: &TaskType,
        id: &TaskId,
        message: Vec<u8>,
        headers: &Headers,
    ) -> Result<ChangeOutcome> {
        let _ = (task_type, id, message, headers);
        Err(Error::Unsupported("update_with"))
    }

    /// The state of a task, current as of the last operation on it. An ended task is known until
    /// its retention is over.
    async fn find(&self, task_type: &TaskType, id: &TaskId) -> Result<Option<TaskInfo>>;

    /// Buckets with something to do earlier than planned: their first task became earlier, their
    /// pause ended, or a slot of a fleet limit that a claim had missed became free. The store hears
    /// of this from any process.
    fn wakeups(&self) -> Wakeups;

    /// Reads the store's real state and settings; `Ok` if it can keep its promises now. For health
    /// checks.
    async fn check(&self) -> Result<()> {
        Ok(())
    }

    /// What becomes a problem later, unless somebody acts. Does not concern
    /// [`check`](Self::check). By default the store knows of nothing.
    async fn concerns(&self) -> Result<Vec<Concern>> {
        Ok(Vec::new())
    }

    /// Takes no more calls, finishes those in progress and cleans up; later calls answer `Closed`.
    /// Not needed for safety: a store that is killed loses nothing either.
    async fn close(&self) {}
}
