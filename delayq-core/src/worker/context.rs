//! Facts of an attempt, for its worker.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use delayq_transaction::{DynTransaction, SqlTransaction};
use serde::Serialize;

use super::StopSignal;
use super::answers::Answers;
use super::batch::{BATCH_HEADER, BatchEnd};
use super::follow_ups::FollowUps;
use crate::error::{Error, Result};
use crate::job::{DelayQueueJob, IntoTime, header_name};
use crate::name::{TaskId, TaskType};
use crate::redacted::RedactedHeaders;
use crate::reply::Reply;
use crate::retry::RetryPolicy;
use crate::task::{AttemptHistory, Headers};
use crate::time::Timestamp;

/// The header of an occurrence of a recurring task: its local time in the schedule's zone.
pub const OCCURRENCE_HEADER: &str = "delayq-occurrence";

/// The facts of an attempt, and a signal to stop. A worker gets this with the message.
#[derive(Clone, Debug)]
pub struct TaskContext {
    shared: Arc<SharedContext>,
    stop: StopSignal,
    retry: RetryPolicy,
    /// Set to true if the attempt is settled later; `None`: it ends with its workers.
    later: Option<Arc<AtomicBool>>,
    /// What ends the attempt in a transaction; `None`: it ends with its workers.
    within: Option<Arc<dyn EndWithin>>,
    /// The index of the worker; `None`: it cannot have follow-ups.
    follow_ups_of: Option<usize>,
    is_repeat: bool,
    /// The number of attempts that the retry policy counts, this one included.
    tried: u32,
}

/// The part shared by the contexts of one attempt.
#[derive(Debug)]
struct SharedContext {
    task: Attempt,
    follow_ups: FollowUps,
    answers: Answers,
}

/// What ends an attempt in a transaction of its worker, see [`TaskContext::settle_within`]. The
/// plugin gives it to the context.
#[async_trait]
pub trait EndWithin: fmt::Debug + Send + Sync {
    /// Ends the attempt of this context as done.
    ///
    /// # Errors
    /// Those of [`TaskContext::settle_within`].
    async fn settle(&self, cx: &TaskContext, tx: &mut dyn DynTransaction) -> Result<()>;
}

/// The facts of one attempt, for creating a [`TaskContext`].
#[derive(Clone)]
pub struct Attempt {
    /// The task's type.
    pub task_type: TaskType,
    /// The task's id.
    pub id: TaskId,
    /// 1-based count of starts.
    pub attempt: u32,
    /// How many of these a retry policy counts: see [`TaskContext::tried`].
    pub tried: u32,
    /// The due time of this attempt.
    pub due_at: Timestamp,
    /// The time when the store handed it out, by the store's clock.
    pub claimed_at: Timestamp,
    /// The time when the task was accepted.
    pub submitted_at: Timestamp,
    /// The fence of the lock.
    pub fence: u64,
    /// The headers.
    pub headers: Headers,
}

impl fmt::Debug for Attempt {
    /// Shows only the names of the headers.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Attempt")
            .field("task_type", &self.task_type)
            .field("id", &self.id)
            .field("attempt", &self.attempt)
            .field("tried", &self.tried)
            .field("due_at", &self.due_at)
            .field("claimed_at", &self.claimed_at)
            .field("submitted_at", &self.submitted_at)
            .field("fence", &self.fence)
            .field("headers", &RedactedHeaders(&self.headers))
            .finish()
    }
}

impl TaskContext {
    /// A context for `attempt`, whose [`cancelled`](Self::cancelled) completes with `stop`. Used by
    /// the plugin and by tests of workers.
    #[must_use]
    pub fn new(attempt: Attempt, stop: StopSignal) -> Self {
        Self {
            is_repeat: attempt.attempt > 1,
            tried: attempt.tried,
            shared: Arc::new(SharedContext {
                task: attempt,
                follow_ups: FollowUps::default(),
                answers: Answers::default(),
            }),
            stop,
            retry: RetryPolicy::DEFAULT,
            later: None,
            within: None,
            follow_ups_of: Some(0),
        }
    }

    /// The same context for a worker with this maximum number of attempts; default: that of
    /// [`RetryPolicy::DEFAULT`].
    #[must_use]
    pub fn with_max_attempts(mut self, max_attempts: u32) -> Self {
        self.retry.max_attempts = max_attempts;
        self
    }

    /// The same context for a worker with this retry policy; default: [`RetryPolicy::DEFAULT`].
    #[must_use]
    pub fn with_retry(mut self, retry: RetryPolicy) -> Self {
        self.retry = retry;
        self
    }

    /// The same context for an attempt that may be settled later; `flag` is set when it is. Used by
    /// the callee and by tests of workers.
    #[must_use]
    pub fn with_later(mut self, flag: Arc<AtomicBool>) -> Self {
        self.later = Some(flag);
        self
    }

    /// The same context for an attempt that `end` can end in a transaction. Used by the plugin and
    /// by tests of workers.
    #[must_use]
    pub fn with_end_within(mut self, end: Arc<dyn EndWithin>) -> Self {
        self.within = Some(end);
        self
    }

    /// The same context for a task with this history; default: none.
    #[must_use]
    pub fn with_history(mut self, history: &AttemptHistory) -> Self {
        self.is_repeat |= *history != AttemptHistory::default();
        self.tried = history.tried();
        self
    }

    /// The task's id.
    #[must_use]
    pub fn id(&self) -> &TaskId {
        &self.shared.task.id
    }

    /// The task's type, for a worker of a pattern.
    #[must_use]
    pub fn task_type(&self) -> &TaskType {
        &self.shared.task.task_type
    }

    /// 1-based count of starts; releases do not count.
    #[must_use]
    pub fn attempt(&self) -> u32 {
        self.shared.task.attempt
    }

    /// The number of attempts that the retry policy counts, this one included. An attempt whose
    /// lock expired is none of them.
    #[must_use]
    pub fn tried(&self) -> u32 {
        self.tried
    }

    /// True if the task may have run before. Unlike [`attempt`](Self::attempt), which may be 1
    /// then, this also covers a release, a give-back by a shutdown and a requeue.
    #[must_use]
    pub fn is_repeat(&self) -> bool {
        self.is_repeat
    }

    /// The maximum number of attempts of the worker's retry policy; 1 for an at-most-once type.
    #[must_use]
    pub fn max_attempts(&self) -> u32 {
        self.retry.max_attempts
    }

    /// The retry policy of the worker.
    #[must_use]
    pub fn retry(&self) -> RetryPolicy {
        self.retry
    }

    /// True if no attempt follows when this one fails: the task goes to dead or, if its type is
    /// at-most-once, it is done already. This is the moment to notify somebody, or to undo what
    /// earlier attempts did.
    #[must_use]
    pub fn is_last_attempt(&self) -> bool {
        self.tried >= self.retry.max_attempts
    }

    /// The due time of this attempt.
    #[must_use]
    pub fn due_at(&self) -> Timestamp {
        self.shared.task.due_at
    }

    /// How long after its due time this attempt was handed out, by the store's clock.
    #[must_use]
    pub fn lateness(&self) -> Duration {
        self.shared.task.claimed_at.since(self.shared.task.due_at)
    }

    /// How long before this attempt the task was accepted, by the store's clock.
    #[must_use]
    pub fn age(&self) -> Duration {
        self.shared
            .task
            .claimed_at
            .since(self.shared.task.submitted_at)
    }

    /// The time when the task was accepted, by the store's clock; a retry or a requeue does not
    /// change it.
    #[must_use]
    pub fn submitted_at(&self) -> Timestamp {
        self.shared.task.submitted_at
    }

    /// The headers that were sent with the message.
    #[must_use]
    pub fn headers(&self) -> &Headers {
        &self.shared.task.headers
    }

    /// The value of one header; the case of its name does not matter.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        let headers = &self.shared.task.headers;
        let named = headers.get(name);
        let named = named.or_else(|| headers.get(&header_name(name)));
        named.map(String::as_str)
    }

    /// The nominal time of an occurrence of a recurring task, however late it runs; `None` for any
    /// other task. The header `delayq-occurrence` has it as local time in the schedule's zone, such
    /// as `2026-11-24T09:00:00+01:00[Europe/Berlin]`.
    #[must_use]
    pub fn occurrence(&self) -> Option<Timestamp> {
        self.header(OCCURRENCE_HEADER)?.into_time().ok()
    }

    /// The batch that this task completes, with the ends of its members; `None` for any other task.
    #[must_use]
    pub fn batch(&self) -> Option<BatchEnd> {
        serde_json::from_str(self.header(BATCH_HEADER)?).ok()
    }

    /// The number of this attempt's lock: strictly larger than that of any earlier attempt.
    #[must_use]
    pub fn fence(&self) -> u64 {
        self.shared.task.fence
    }

    /// Sends `job` when the worker has returned `Ok`, before its task ends as done: both happen, or
    /// the attempt is repeated. After a failed attempt nothing is sent.
    ///
    /// A job without an id gets one derived from the task, the worker and its position among the
    /// calls of `then`. So a repeated attempt sends nothing twice, provided that it records the
    /// same jobs in the same order. If a job has an id, an existing task with that id is kept,
    /// unless the job says [`replace`](DelayQueueJob::replace).
    ///
    /// The job is checked when it is sent: a refusal fails the attempt.
    ///
    /// # Errors
    /// [`Error::InvalidInput`] in an at-most-once type, whose tasks end before they start; for the
    /// type and id of the running task itself; and for more than 1,000 jobs.
    pub fn then(&self, job: DelayQueueJob) -> Result<()> {
        let invalid = |reason: &str| Err(Error::invalid("follow-up", reason));
        let Some(worker) = self.follow_ups_of else {
            return invalid(
                "an at-most-once task is done before it starts, so that nothing can be sent \
                 with its end: send with Component<TaskSubmitService>",
            );
        };
        let is_same_id = job.task_id() == self.id().as_str() && !job.is_throttled();
        if is_same_id && job.task_type() == self.task_type().as_str() {
            return invalid("it has the type and id of the task itself, which runs: give another");
        }
        if self.shared.follow_ups.push(worker, job) {
            return Ok(());
        }
        invalid("at most 1,000 in one attempt")
    }

    /// Takes the jobs that the worker of this context has recorded with [`then`](Self::then). Used
    /// by the plugin and by tests of workers.
    #[must_use]
    pub fn take_follow_ups(&self) -> Vec<DelayQueueJob> {
        self.follow_ups_of
            .map(|worker| self.shared.follow_ups.take(worker))
            .unwrap_or_default()
    }

    /// Replies with `value` as JSON to the callers that wait for this task (`send_and_wait`): see
    /// [`reply_with`](Self::reply_with).
    ///
    /// # Errors
    /// `Serialize` for a value without a JSON form, and the errors of `reply_with`.
    pub fn reply<R: Serialize + ?Sized>(&self, value: &R) -> Result<()> {
        self.reply_with(Reply::json(value)?)
    }

    /// Replies with these bytes to the callers that wait for this task: see
    /// [`reply_with`](Self::reply_with).
    ///
    /// # Errors
    /// Those of `reply_with`.
    pub fn reply_bytes(&self, body: impl Into<Vec<u8>>) -> Result<()> {
        self.reply_with(Reply::bytes(body))
    }

    /// Replies to the callers that wait for this task. The reply is stored when the worker has
    /// returned `Ok`, before its task ends as done: everybody who sees the task done finds it. The
    /// reply of a failed attempt is dropped. A second reply replaces the first. If a task has
    /// several workers, the reply of the last one to end counts.
    ///
    /// # Errors
    /// [`Error::InvalidInput`] for a reply that [cannot be kept](Reply::check), and in an
    /// at-most-once type, whose tasks end before they start.
    pub fn reply_with(&self, reply: Reply) -> Result<()> {
        reply.check()?;
        let Some(worker) = self.follow_ups_of else {
            let reason = "an at-most-once task is done before it starts, so that nobody can wait \
                          for its reply";
            return Err(Error::invalid("reply", reason));
        };
        self.shared.answers.give(worker, reply);
        Ok(())
    }

    /// Takes the reply of this context's worker. Used by the plugin and by tests of workers.
    #[must_use]
    pub fn take_reply(&self) -> Option<Reply> {
        self.shared.answers.take(self.follow_ups_of?)
    }

    /// Leaves the end of this attempt to a later settlement of its lock: the task is not done when
    /// its worker returns `Ok`. Any other result of the worker ends the attempt as usual. Only in
    /// service mode, where `callee::Settlements` of delayq-plugin does both.
    ///
    /// # Errors
    /// [`Error::InvalidInput`] if the worker was not called by a server, and for a second call in
    /// one attempt.
    pub fn settle_later(&self) -> Result<()> {
        let invalid = |reason: &str| Err(Error::invalid("later settlement", reason));
        match &self.later {
            None => invalid("this attempt ends with its worker: no server called it"),
            Some(flag) if flag.swap(true, Ordering::AcqRel) => {
                invalid("this attempt is settled later already, and has one end")
            }
            Some(_) => Ok(()),
        }
    }

    /// Writes the end of this attempt, done, in a transaction of the worker's own database client.
    /// The transaction's commit is the end: what the worker wrote in it and the end of the task
    /// are both there, or neither. Commit right after this call.
    ///
    /// A transaction that is not committed leaves the task as it was, and the attempt fails when
    /// the worker returns, whatever it returns: it is retried. After a commit the attempt is
    /// done, whatever happens to the worker. After a rollback the worker may begin another
    /// transaction, do its work again and call this again.
    ///
    /// Jobs recorded by [`then`](Self::then) so far are sent in the same transaction. A further
    /// call sends those recorded since or, if there are none, the same again. A
    /// [reply](Self::reply) given so far is stored before.
    ///
    /// # Errors
    /// [`Error::LockLost`] if another attempt has the task or the attempt has been settled: return
    /// it, so that the transaction is rolled back. [`Error::Transaction`] with the words of the
    /// database. [`Error::InvalidInput`] if the task's store is not in a SQL database; for an
    /// at-most-once task, which is done before it starts; if the task has other workers that have
    /// not succeeded yet; and in a context that is not a plugin's.
    pub async fn settle_within<T: SqlTransaction>(&self, tx: &mut T) -> Result<()> {
        let Some(end) = &self.within else {
            let reason = "this attempt cannot end in a transaction: its plugin does not run it, but \
                          a server or a test does";
            return Err(Error::invalid("settle_within", reason));
        };
        end.settle(self, tx).await
    }

    /// The same context for the worker with this index among those of its type, which has its own
    /// follow-ups and reply; `None`: it cannot have any. Default: the first worker.
    #[must_use]
    pub fn with_follow_ups_of(mut self, worker: Option<usize>) -> Self {
        self.follow_ups_of = worker;
        self
    }

    /// Completes when the attempt should stop: its lock is lost, the task was cancelled, its time
    /// is up, or the process shuts down. After that, the attempt can no longer settle the task.
    pub async fn cancelled(&self) {
        self.stop.stopped().await;
    }

    /// True if the attempt should stop; for blocking workers and loops.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.stop.is_stopped()
    }
}
