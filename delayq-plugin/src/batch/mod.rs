//! Batches: many jobs, and one further job once all of them have ended.
//!
//! The members are ordinary tasks that know nothing of the batch. A *watcher*, a task of a type of
//! its own, looks at them in order up to the first one that has not ended, and later runs again
//! from there.

mod completion;
mod members;
mod report;
mod watch;

use delayq_core::{DelayQueueJob, Error, Result, TaskId};

pub use delayq_core::worker::BatchEnd;

pub use self::report::{BatchPage, BatchProgress, BatchReceipt, BatchState, BatchSummary};
pub(crate) use self::watch::{NewMembers, Watch};
use delayq_core::worker::BATCH_HEADER;

/// The type of the watchers. A watcher's id is the name of its batch.
pub const BATCH_TYPE: &str = "delayq.batch";
/// Longest name: the ids of the members and of the completion have a suffix.
const MAX_NAME: usize = 64;
/// Most members.
pub const MAX_MEMBERS: usize = 100_000;

/// Many jobs, and one that is sent once all of them have ended, see
/// [`TaskSubmitService::send_batch`](crate::TaskSubmitService::send_batch).
///
/// ```
/// use delayq_plugin::{Batch, DelayQueueJob, Result, TaskSubmitService};
///
/// # async fn import(tasks: &TaskSubmitService, rows: &[String]) -> Result<()> {
/// let jobs = rows.iter().map(|row| DelayQueueJob::new("row.import", row));
/// let jobs: Result<Vec<_>> = jobs.collect();
/// let report = DelayQueueJob::new("import.report", "7")?;
/// tasks.send_batch(Batch::new("import-7").jobs(jobs?).then(report)).await?;
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "a batch does nothing until it is sent"]
pub struct Batch {
    name: String,
    pub(crate) jobs: Vec<DelayQueueJob>,
    completion: Option<DelayQueueJob>,
    pub(crate) waits_for_dead: bool,
}

impl Batch {
    /// A batch without members. The name is 1 to 64 visible ASCII characters and must be unique:
    /// while a batch with this name waits, another one is refused.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            jobs: Vec::new(),
            completion: None,
            waits_for_dead: false,
        }
    }

    /// Adds a member, of any type. A job without an id of its own gets the name of the batch and
    /// its index among the members, such as `import-7/0`.
    pub fn job(mut self, job: DelayQueueJob) -> Self {
        self.jobs.push(job);
        self
    }

    /// Adds members, see [`job`](Self::job).
    pub fn jobs(mut self, jobs: impl IntoIterator<Item = DelayQueueJob>) -> Self {
        self.jobs.extend(jobs);
        self
    }

    /// Sets the job that is sent once each member has ended or is dead. Its worker finds the counts
    /// in [`TaskContext::batch`](crate::TaskContext::batch). A delay counts from then. Its id is
    /// always derived from the batch, so that it runs once.
    pub fn then(mut self, job: DelayQueueJob) -> Self {
        self.completion = Some(job);
        self
    }

    /// Also waits while a member is dead: until it has been requeued and has ended, or was
    /// discarded.
    pub fn wait_for_dead(mut self) -> Self {
        self.waits_for_dead = true;
        self
    }

    /// The name, and the completion.
    pub(crate) fn check(&mut self) -> Result<(TaskId, DelayQueueJob)> {
        let invalid = |reason: &str| Err(Error::invalid("batch", reason));
        if !(1..=MAX_NAME).contains(&self.name.len()) {
            return invalid("its name has 1 to 64 visible ASCII characters");
        }
        let name = TaskId::new(&self.name)?;
        if self.jobs.len() > MAX_MEMBERS {
            return Err(Error::LimitExceeded {
                what: "number of members of a batch",
                actual: self.jobs.len() as u64,
                limit: MAX_MEMBERS as u64,
            });
        }
        let Some(completion) = self.completion.take() else {
            return invalid("nothing follows it: write .then(job), or use send_all");
        };
        if !completion.has_generated_id() {
            return invalid(
                "the job of .then(..) has an id: leave out .id(..), as it gets one that is made \
                 of the batch, which is in the receipt",
            );
        }
        Ok((name, completion))
    }
}
