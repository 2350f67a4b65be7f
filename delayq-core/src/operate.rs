//! Operators' methods on a type: settings, counts, lists, dead letters, pauses, audits.

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

/// Maximum number of parts of a [histogram](Operate::due_histogram).
pub const MAX_HISTOGRAM_STEPS: usize = 1_000;

/// Refuses invalid arguments of a [histogram](Operate::due_histogram).
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
/// On a sharded type each shard is a separate step: counts are sums, and there is no order over all
/// shards while tasks change. The methods with a body are optional: a store without one answers
/// [`Error::Unsupported`].
#[async_trait]
pub trait Operate: Send + Sync {
    /// Every type that was registered or had a task submitted, sorted. A type stays listed until it
    /// is [dropped](Self::drop_type).
    async fn types(&self) -> Result<Vec<TaskType>>;

    /// Lists a type before its first task.
    async fn register_type(&self, task_type: &TaskType) -> Result<()>;

    /// Changes settings of a type for all users of this data, at once. Does not list the type.
    async fn configure_type(&self, task_type: &TaskType, settings: &TypeSettings) -> Result<()> {
        let _ = (task_type, settings);
        Err(Error::Unsupported("configure_type"))
    }

    /// Counts of a type; zero for an unknown type. O(log n).
    async fn stats(&self, task_type: &TaskType) -> Result<TypeStats> {
        let _ = task_type;
        Err(Error::Unsupported("stats"))
    }

    /// Up to `limit` (at most [`MAX_BATCH`](crate::store::MAX_BATCH)) tasks in `state`, after
    /// `cursor`, by their `at` and id: earliest first for scheduled, running and dead tasks, latest
    /// first for ended ones.
    ///
    /// Ended tasks are shown if [`find`](crate::Store::find) would show them. A task that ended
    /// before the call, and is not forgotten during it, is on its page. A store that keeps no order
    /// of ended tasks goes through all that it remembers of the type, in small steps.
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

    /// The number of scheduled tasks due in each of `steps` (1 to 1,000) equal parts of `from..to`.
    ///
    /// # Errors
    /// `InvalidInput` if `to` is not after `from` or `steps` is out of range.
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

    /// Schedules dead tasks again with their attempts reset, in order of death (or of the ids
    /// given): the first due now, each further one `interval` later. Returns their ids.
    ///
    /// # Errors
    /// `InvalidInput` for a filter that [`DeadFilter::check`] refuses.
    async fn requeue_dead(
        &self,
        task_type: &TaskType,
        filter: &DeadFilter,
        interval: Duration,
    ) -> Result<Vec<TaskId>> {
        let _ = (task_type, filter, interval);
        Err(Error::Unsupported("requeue_dead"))
    }

    /// Removes dead tasks for good. Returns their ids.
    ///
    /// # Errors
    /// As [`requeue_dead`](Self::requeue_dead).
    async fn discard_dead(&self, task_type: &TaskType, filter: &DeadFilter) -> Result<Vec<TaskId>> {
        let _ = (task_type, filter);
        Err(Error::Unsupported("discard_dead"))
    }

    /// Pauses a type: claims hand out none of its tasks until `until`, or until
    /// [`resume`](Self::resume) if `None`. Running tasks go on; their locks can be extended and
    /// settled.
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
    /// ones in it (done, cancelled, expired). Returns the number. This is not one step: it works in
    /// batches.
    ///
    /// # Errors
    /// `InvalidInput` for running tasks: cancel them instead.
    async fn purge(&self, task_type: &TaskType, state: TaskState) -> Result<u64> {
        let _ = (task_type, state);
        Err(Error::Unsupported("purge"))
    }

    /// Removes a type that has no tasks from the list, with its settings, its pause and its records
    /// of ended tasks. Its largest fence stays, so that fences keep growing. A task submitted at
    /// the same time or later is kept and lists the type again, as registering it does. For an
    /// unknown type nothing happens.
    ///
    /// # Errors
    /// `TypeInUse` while it has scheduled, running or dead tasks; `InvalidInput` for a type that
    /// was sharded, which cannot be removed.
    async fn drop_type(&self, task_type: &TaskType) -> Result<()> {
        let _ = task_type;
        Err(Error::Unsupported("drop_type"))
    }

    /// Verifies the structure of the type: every id is in exactly one state, indexes match records,
    /// checksums are right, only running tasks have locks. With `repair` it mends the damage it can
    /// without losing a task: tasks that cannot run go to dead, tasks that are in no index are
    /// scheduled. Works in batches.
    async fn audit(&self, task_type: &TaskType, repair: bool) -> Result<AuditReport> {
        let _ = (task_type, repair);
        Err(Error::Unsupported("audit"))
    }
}
