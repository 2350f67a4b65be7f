//! What operators do to a type: settings, counts, lists, dead letters, pauses, audits.

use std::time::Duration;

use async_trait::async_trait;

mod audit;
mod dead;
mod page;
mod parts;
mod settings;
mod stats;

pub use audit::{AuditReport, Problem};
pub use dead::{DeadFilter, check_condition};
pub use page::{Cursor, Page};
pub use parts::{merge_pages, sum_stats};
pub use settings::{MAX_SHARDS, Setting, TypeSettings};
pub use stats::{TypeStats, TypeTotals};

use crate::error::{Error, Result};
use crate::name::{TaskId, TaskType};
use crate::state::TaskState;
use crate::time::Timestamp;

/// Most parts of a [histogram](Operate::due_histogram).
pub const MAX_HISTOGRAM_STEPS: usize = 1_000;

/// Refuses a [histogram](Operate::due_histogram) that no store answers.
///
/// # Errors
/// `InvalidInput` for an empty range, and unless there are 1 to [`MAX_HISTOGRAM_STEPS`] steps.
pub fn check_histogram(from: Timestamp, to: Timestamp, steps: usize) -> Result<()> {
    if from < to && (1..=MAX_HISTOGRAM_STEPS).contains(&steps) {
        return Ok(());
    }
    let most = MAX_HISTOGRAM_STEPS;
    let reason = format!("cannot split {from}..{to} into {steps} steps: use 1 to {most}");
    Err(Error::invalid("argument", reason))
}

/// The operator's side of a store. Errors are those of [`Store`](crate::Store).
///
/// Of a sharded type each shard is a step of its own: counts are sums, and no order holds over all
/// shards while tasks change. The methods with a body are optional: a store that does not have one
/// answers [`Error::Unsupported`].
#[async_trait]
pub trait Operate: Send + Sync {
    /// Every type that was registered or had a task submitted, sorted. A type stays listed until it
    /// is [dropped](Self::drop_type).
    async fn types(&self) -> Result<Vec<TaskType>>;

    /// Lists a type before its first task.
    async fn register_type(&self, task_type: &TaskType) -> Result<()>;

    /// Changes settings of a type for every user of this data, at once. Does not list the type.
    async fn configure_type(&self, task_type: &TaskType, settings: &TypeSettings) -> Result<()> {
        let _ = (task_type, settings);
        Err(Error::Unsupported("configure_type"))
    }

    /// Counts of a type; an unknown type counts nothing. O(log n).
    async fn stats(&self, task_type: &TaskType) -> Result<TypeStats> {
        let _ = task_type;
        Err(Error::Unsupported("stats"))
    }

    /// Up to `limit` (at most [`MAX_BATCH`](crate::store::MAX_BATCH)) tasks in `state`, after
    /// `cursor`, by their `at` and id: those scheduled, running or dead the first first, those that
    /// have ended the latest first.
    ///
    /// Of the ended ones it shows those that [`find`](crate::Store::find) would. A task that ended
    /// before the call, and is not forgotten during it, is on its page. A store without an order of
    /// them goes through all that it remembers of the type, in small steps.
    async fn list(
        &self,
        task_type: &TaskType,
        state: TaskState,
        cursor: Option<&Cursor>,
        limit: usize,
    ) -> Result<Page> {
        let _ = (task_type, state, cursor, limit);
        Err(Error::Unsupported("list"))
    }

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
    ) -> Result<Vec<u64>> {
        let _ = (task_type, from, to, steps);
        Err(Error::Unsupported("due_histogram"))
    }

    /// Schedules dead tasks again with their attempts counted anew, in order of death (or of the
    /// ids given): the first due now, each next one `interval` later. Returns which.
    ///
    /// # Errors
    /// `InvalidInput` for what [`DeadFilter::check`] refuses.
    async fn requeue_dead(
        &self,
        task_type: &TaskType,
        filter: &DeadFilter,
        interval: Duration,
    ) -> Result<Vec<TaskId>> {
        let _ = (task_type, filter, interval);
        Err(Error::Unsupported("requeue_dead"))
    }

    /// Removes dead tasks for good. Returns which.
    ///
    /// # Errors
    /// As [`requeue_dead`](Self::requeue_dead).
    async fn discard_dead(&self, task_type: &TaskType, filter: &DeadFilter) -> Result<Vec<TaskId>> {
        let _ = (task_type, filter);
        Err(Error::Unsupported("discard_dead"))
    }

    /// Claims hand out nothing of the type until `until`, or until [`resume`](Self::resume) when
    /// `None`. Running tasks go on; their locks can be extended and settled.
    async fn pause(&self, task_type: &TaskType, until: Option<Timestamp>) -> Result<()> {
        let _ = (task_type, until);
        Err(Error::Unsupported("pause"))
    }

    /// Ends a pause at once.
    async fn resume(&self, task_type: &TaskType) -> Result<()> {
        let _ = task_type;
        Err(Error::Unsupported("resume"))
    }

    /// Removes every task of the type that is in `state` (scheduled or dead), or forgets the ended
    /// ones in it (done, cancelled, expired). Returns how many. Not one step: in batches.
    ///
    /// # Errors
    /// `InvalidInput` for running tasks: cancel them instead.
    async fn purge(&self, task_type: &TaskType, state: TaskState) -> Result<u64> {
        let _ = (task_type, state);
        Err(Error::Unsupported("purge"))
    }

    /// Removes a type that has no tasks: it is listed no more, and its settings, its pause and the
    /// ends it remembers are gone. Its largest fence stays, so that fences go on growing. A task
    /// that is submitted at the same time or afterwards is kept and lists the type again, as
    /// registering does. An unknown type needs no dropping.
    ///
    /// # Errors
    /// `TypeInUse` while it has scheduled, running or dead tasks; `InvalidInput` for a type that
    /// was sharded, which stays.
    async fn drop_type(&self, task_type: &TaskType) -> Result<()> {
        let _ = task_type;
        Err(Error::Unsupported("drop_type"))
    }

    /// Proves the structure of the type: every id in exactly one state, indexes and records one to
    /// one, checksums right, locks only on running tasks. With `repair` it mends what it can so
    /// that no task is lost: what cannot run goes to dead, what is in no index is scheduled. In
    /// batches.
    async fn audit(&self, task_type: &TaskType, repair: bool) -> Result<AuditReport> {
        let _ = (task_type, repair);
        Err(Error::Unsupported("audit"))
    }
}
