//! Workers: user code that runs a task, and what it is given.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio_util::sync::CancellationToken;

use crate::fleet::FleetLimits;
use crate::name::{TaskId, TaskType};
use crate::retry::RetryPolicy;
use crate::task::Headers;
use crate::time::Timestamp;

/// User code that runs the tasks of a type.
///
/// Delivery is at-least-once: after a crash or a lost lock the same task is given again. Make the
/// effect idempotent by the task id, or guard it with [`TaskContext::fence`].
#[async_trait]
pub trait TaskWorker: Send + Sync + 'static {
    /// Runs one attempt. `Ok` ends the task; an error retries it or sends it to dead, see [`TaskError`].
    ///
    /// # Errors
    /// What went wrong with this attempt.
    async fn invoke(&self, message: &str, cx: &TaskContext) -> TaskResult;

    /// Runs one attempt on a message of any bytes. By default it is checked to be UTF-8 and given to
    /// [`invoke`](Self::invoke); a worker of binary messages overrides this.
    ///
    /// # Errors
    /// As `invoke`; a message that is not UTF-8 goes to dead, because no retry mends it.
    async fn invoke_bytes(&self, message: &[u8], cx: &TaskContext) -> TaskResult {
        match std::str::from_utf8(message) {
            Ok(text) => self.invoke(text, cx).await,
            Err(e) => Err(TaskError::dead(format!(
                "the message is not UTF-8 ({e}); override invoke_bytes to take binary messages"
            ))),
        }
    }
}

/// So that a worker which is built already can be put into another one.
#[async_trait]
impl<W: TaskWorker + ?Sized> TaskWorker for Arc<W> {
    async fn invoke(&self, message: &str, cx: &TaskContext) -> TaskResult {
        (**self).invoke(message, cx).await
    }

    async fn invoke_bytes(&self, message: &[u8], cx: &TaskContext) -> TaskResult {
        (**self).invoke_bytes(message, cx).await
    }
}

/// What an attempt returns.
pub type TaskResult = Result<(), TaskError>;

/// How an attempt failed, which decides what happens next.
///
/// Any error converts with `?` and means: try again by the retry policy.
#[derive(Debug)]
#[non_exhaustive]
pub enum TaskError {
    /// Try again as the retry policy says; dead after the last attempt.
    Retry(String),
    /// Try again after this wait instead of the policy's; still counts as an attempt.
    RetryAfter(Duration, String),
    /// Never try again: dead at once.
    Dead(String),
    /// Not now: give the task back, due after this wait, without burning an attempt.
    Release(Duration),
}

impl TaskError {
    /// Try again as the retry policy says.
    pub fn retry(error: impl fmt::Display) -> Self {
        Self::Retry(error.to_string())
    }

    /// Try again after `wait`, whatever the policy's wait; its number of attempts still counts.
    pub fn retry_after(wait: Duration, error: impl fmt::Display) -> Self {
        Self::RetryAfter(wait, error.to_string())
    }

    /// No retry: the task goes to dead at once, with this error.
    pub fn dead(error: impl fmt::Display) -> Self {
        Self::Dead(error.to_string())
    }

    /// Gives the task back without burning an attempt; it is due again after `wait`.
    #[must_use]
    pub fn release(wait: Duration) -> Self {
        Self::Release(wait)
    }
}

impl<E: std::error::Error> From<E> for TaskError {
    /// The error and its sources, joined by `: `.
    fn from(error: E) -> Self {
        let mut text = error.to_string();
        let mut source = error.source();
        while let Some(cause) = source {
            text = format!("{text}: {cause}");
            source = cause.source();
        }
        Self::Retry(text)
    }
}

/// Which of two risks a type takes when a process dies in the middle of an attempt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Delivery {
    /// The task is given again: it may run twice. The default.
    #[default]
    AtLeastOnce,
    /// The task is settled as done before it starts: it may be cut off, but never runs twice. There
    /// are no retries.
    AtMostOnce,
}

/// What to do with a task that is claimed too late.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnLate {
    /// Run it, however late. The default.
    #[default]
    Run,
    /// End it as expired.
    Drop,
    /// Send it to dead, for somebody to look at.
    Dead,
}

/// What "too late" means and what happens then. Only first attempts are measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LatePolicy {
    /// What happens.
    pub action: OnLate,
    /// Lateness above this is too late. Not used with [`OnLate::Run`].
    pub after: Duration,
}

/// The options of one worker, as the attribute or the builder gives them.
///
/// When several workers serve one type (fan-out), the type uses the longest lock and time limit, the
/// smallest concurrency, fleet limits and bound and the first worker's late policy, and at-most-once only if
/// all say so; retry policies stay each worker's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkerOptions {
    /// When a failed attempt is repeated. Default [`RetryPolicy::DEFAULT`].
    pub retry: RetryPolicy,
    /// Time limit of one attempt; default 30 minutes. It then counts as failed, and the worker's
    /// future is dropped (a blocking worker cannot be stopped: it keeps its place until it returns).
    pub timeout: Duration,
    /// How long a claim's lock lasts; default 30 s, at least 1 s. Extended while the worker runs, so
    /// it only bounds how long a crashed holder delays its tasks.
    pub lock: Duration,
    /// Most tasks of the type that this process runs at the same time; default 256, at least 1:
    /// two batches of a claim, so that one is on its way while the other runs.
    pub concurrency: usize,
    /// At-least-once (default) or at-most-once.
    pub delivery: Delivery,
    /// Whether the worker blocks its thread; it then runs on the runtime's blocking pool.
    pub blocking: bool,
    /// What to do with tasks that are claimed too late; default: run them.
    pub late: LatePolicy,
    /// Limits over all instances together; default: none.
    pub fleet: FleetLimits,
    /// Scheduled tasks of the type above which submits are refused with
    /// [`Error::QueueFull`](crate::Error::QueueFull), at least 1. Default `None`: the type keeps the bound that
    /// it has in the store, at first none.
    pub max_pending: Option<u64>,
    /// Partitions that the type is split into on Redis, 1 to 256, each of which can lie on another node of a
    /// cluster. Default `None`: it keeps those that it has, at first one. Their number is never lowered.
    pub partitions: Option<u32>,
}

impl WorkerOptions {
    /// The defaults, usable in constants.
    pub const DEFAULT: Self = Self {
        retry: RetryPolicy::DEFAULT,
        timeout: Duration::from_mins(30),
        lock: Duration::from_secs(30),
        concurrency: 256,
        delivery: Delivery::AtLeastOnce,
        blocking: false,
        late: LatePolicy {
            action: OnLate::Run,
            after: Duration::ZERO,
        },
        fleet: FleetLimits::NONE,
        max_pending: None,
        partitions: None,
    };
}

impl Default for WorkerOptions {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// What the attempt is about, beside the message.
#[derive(Clone, Debug)]
pub struct TaskContext {
    task: Arc<Attempt>,
    cancelled: CancellationToken,
}

/// The facts of one attempt, from which a [`TaskContext`] is made.
#[derive(Clone, Debug)]
pub struct Attempt {
    /// The task's type.
    pub task_type: TaskType,
    /// The task's id.
    pub id: TaskId,
    /// 1-based count of starts.
    pub attempt: u32,
    /// When this attempt was due.
    pub due_at: Timestamp,
    /// When the store handed it out, on the store's clock.
    pub claimed_at: Timestamp,
    /// When the task was accepted.
    pub submitted_at: Timestamp,
    /// The fence of the lock.
    pub fence: u64,
    /// The headers.
    pub headers: Headers,
}

impl TaskContext {
    /// A context for `attempt`, whose `cancelled()` fires with `cancelled`. The plugin makes these;
    /// tests of a worker may, too.
    #[must_use]
    pub fn new(attempt: Attempt, cancelled: CancellationToken) -> Self {
        Self {
            task: Arc::new(attempt),
            cancelled,
        }
    }

    /// The task's id.
    #[must_use]
    pub fn id(&self) -> &TaskId {
        &self.task.id
    }

    /// The task's type; tells a pattern worker which one it is.
    #[must_use]
    pub fn task_type(&self) -> &TaskType {
        &self.task.task_type
    }

    /// 1-based count of starts; releases do not count.
    #[must_use]
    pub fn attempt(&self) -> u32 {
        self.task.attempt
    }

    /// When this attempt was due.
    #[must_use]
    pub fn due_at(&self) -> Timestamp {
        self.task.due_at
    }

    /// How long after its due time this attempt was handed out, on the store's clock.
    #[must_use]
    pub fn lateness(&self) -> Duration {
        self.task.claimed_at.since(self.task.due_at)
    }

    /// How long before this attempt the task was accepted, on the store's clock.
    #[must_use]
    pub fn age(&self) -> Duration {
        self.task.claimed_at.since(self.task.submitted_at)
    }

    /// The headers that were sent with the message.
    #[must_use]
    pub fn headers(&self) -> &Headers {
        &self.task.headers
    }

    /// One header.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.task.headers.get(name).map(String::as_str)
    }

    /// The number of this attempt's lock: strictly larger than that of any earlier attempt.
    #[must_use]
    pub fn fence(&self) -> u64 {
        self.task.fence
    }

    /// Completes when the attempt should stop: its lock is lost, somebody cancelled the task, its time
    /// is up, or the process shuts down. Whatever it does later can no longer settle the task.
    pub async fn cancelled(&self) {
        self.cancelled.cancelled().await;
    }

    /// Whether the attempt should stop; for blocking workers and loops.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.cancelled.is_cancelled()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Text;

    #[async_trait]
    impl TaskWorker for Text {
        async fn invoke(&self, message: &str, _cx: &TaskContext) -> TaskResult {
            let _: u32 = message.parse()?;
            Ok(())
        }
    }

    fn context() -> TaskContext {
        let attempt = Attempt {
            task_type: TaskType::new("a").unwrap(),
            id: TaskId::new("1").unwrap(),
            attempt: 1,
            due_at: Timestamp::from_millis(1_000),
            claimed_at: Timestamp::from_millis(1_002),
            submitted_at: Timestamp::ZERO,
            fence: 7,
            headers: Headers::new(),
        };
        TaskContext::new(attempt, CancellationToken::new())
    }

    #[tokio::test]
    async fn any_error_means_retry_and_bytes_that_are_not_text_mean_dead() {
        let cx = context();
        assert_eq!(
            (cx.lateness(), cx.age()),
            (Duration::from_millis(2), Duration::from_millis(1_002))
        );
        assert!(matches!(Text.invoke_bytes(b"7", &cx).await, Ok(())));
        assert!(matches!(
            Text.invoke_bytes(b"x", &cx).await,
            Err(TaskError::Retry(_))
        ));
        assert!(matches!(
            Text.invoke_bytes(b"\xff", &cx).await,
            Err(TaskError::Dead(_))
        ));
    }
}
