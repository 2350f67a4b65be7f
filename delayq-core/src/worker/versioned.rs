//! A worker that handles versions of its messages.

use std::time::Duration;

use async_trait::async_trait;
use serde_json::Value;
use tracing::warn;

use super::{TaskContext, TaskError, TaskResult, TaskWorker};
use crate::job::version_of;
use crate::log_limit::LogLimit;

/// How long a message of a newer version waits before its next attempt, so that a rolling deploy
/// can start a worker that knows it.
pub const NEWER_VERSION_WAIT: Duration = Duration::from_mins(1);

/// Limit on log lines about messages of newer versions.
static NEWER: LogLimit = LogLimit::new();

/// Converts a message of an older version into the present version.
type Upcast = Box<dyn Fn(u32, Value) -> Result<Value, String> + Send + Sync>;

/// A worker that knows messages up to a version, as registered by
/// `#[task_worker(version = 2, upcast = ..)]`.
/// [`DelayQueueJob::version`](crate::DelayQueueJob::version) sets the version of a message.
///
/// - A message of this version is passed to the worker unchanged.
/// - A message of an older version is a JSON value that `upcast` converts to the present version;
///   an error sends the task to dead. Without an `upcast` it is passed to the worker unchanged.
/// - A message of a newer version is not read. The attempt fails, and the next one is a minute
///   later, so that a newer instance may take it; after the last attempt the task is dead.
pub struct Versioned<W> {
    worker: W,
    version: u32,
    upcast: Option<Upcast>,
}

impl<W> std::fmt::Debug for Versioned<W> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Versioned({})", self.version)
    }
}

impl<W: TaskWorker> Versioned<W> {
    /// Wraps `worker`, which knows messages of `version` and of older ones.
    pub fn new(worker: W, version: u32) -> Self {
        let upcast = None;
        Self {
            worker,
            version,
            upcast,
        }
    }

    /// Sets `upcast`, which converts a message of the given older version into the present version.
    #[must_use]
    pub fn upcast<E: std::fmt::Display>(
        mut self,
        upcast: impl Fn(u32, Value) -> Result<Value, E> + Send + Sync + 'static,
    ) -> Self {
        let upcast = move |from, value| upcast(from, value).map_err(|error| error.to_string());
        self.upcast = Some(Box::new(upcast));
        self
    }

    /// The message in the present version, if it has to be converted.
    fn upcasted(&self, message: &[u8], found: u32) -> Result<Option<Vec<u8>>, TaskError> {
        let Some(upcast) = self.upcast.as_ref().filter(|_| found < self.version) else {
            return Ok(None);
        };
        let dead = |what: String| {
            let version = self.version;
            TaskError::dead(format!("message of version {found}, not {version}: {what}"))
        };
        // serde_json's syntax errors quote nothing of the message.
        let value = serde_json::from_slice(message)
            .map_err(|error| dead(format!("it is no JSON: {error}")))?;
        let value = upcast(found, value).map_err(|error| dead(format!("upcast: {error}")))?;
        let text = serde_json::to_vec(&value);
        text.map(Some).map_err(|error| dead(error.to_string()))
    }
}

// Otherwise the compiler suggests this wrapper for a type that is not a worker.
#[diagnostic::do_not_recommend]
#[async_trait]
impl<W: TaskWorker> TaskWorker for Versioned<W> {
    async fn invoke(&self, message: &str, cx: &TaskContext) -> TaskResult {
        self.invoke_bytes(message.as_bytes(), cx).await
    }

    async fn invoke_bytes(&self, message: &[u8], cx: &TaskContext) -> TaskResult {
        let found = version_of(cx.headers()).map_err(TaskError::dead)?;
        if found > self.version {
            let known = self.version;
            if let Some(left_out) = NEWER.admit() {
                warn!(task_type = %cx.task_type(), id = %cx.id(), found, known, left_out,
                    "the message is of a newer version than the worker: left to a newer instance");
            }
            let error = format!("message of version {found}, the worker knows up to {known}");
            return Err(TaskError::retry_after(NEWER_VERSION_WAIT, error));
        }
        match self.upcasted(message, found)? {
            Some(message) => self.worker.invoke_bytes(&message, cx).await,
            None => self.worker.invoke_bytes(message, cx).await,
        }
    }
}
