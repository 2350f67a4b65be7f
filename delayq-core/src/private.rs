//! Items used by code that `#[task_worker]` generates; not part of the public interface.
//!
//! The generated code uses only this one module, so that it does not depend on an application's
//! imports, shadowed names or renamed crates.

pub use std::sync::Arc;
pub use std::time::Duration;

pub use async_trait::async_trait;
pub use inventory;
pub use serde::Serialize;
pub use serde_json;

pub use crate::error::Result;
pub use crate::extract::argument::{ComponentArgument, JsonArgument, RenamedArgument};
pub use crate::extract::{Component, IntoTaskResult, Json};
pub use crate::fleet::{FleetLimits, Rate};
pub use crate::history::{KeptMessage, Recording};
pub use crate::job::DelayQueueJob;
pub use crate::registry::{
    Components, FromComponents, MissingComponent, WorkerRegistration, WorkerSchedule,
};
pub use crate::retry::{Backoff, RetryPolicy};
pub use crate::worker::{
    Delivery, LatePolicy, OnLate, TaskContext, TaskError, TaskResult, TaskWorker, Versioned,
    WorkerOptions,
};

use std::future::Future;
use std::pin::Pin;

use serde::Deserialize;

use crate::error::Error;
use crate::name::{MAX_TASK_TYPE_BYTES, TaskType, TypePattern, is_word};

/// Parses the message as JSON. A function rather than a method, so that the compiler names the
/// missing trait of a `T` that cannot be parsed.
///
/// # Errors
/// As [`Json::from_message`].
pub fn json<'a, T: Deserialize<'a>>(message: &'a [u8]) -> Result<Json<T>, TaskError> {
    Json::from_message(message)
}

/// Like [`json`], but the errors may quote values of the message.
///
/// # Errors
/// As [`Json::from_message_quoting`].
pub fn json_quoting<'a, T: Deserialize<'a>>(message: &'a [u8]) -> Result<Json<T>, TaskError> {
    Json::from_message_quoting(message)
}

/// The message as text, for a worker function that takes `&str` or `String`.
///
/// # Errors
/// [`TaskError::Dead`] if it is not UTF-8, because a retry cannot help.
pub fn text(message: &[u8]) -> Result<&str, TaskError> {
    std::str::from_utf8(message).map_err(|e| {
        TaskError::dead(format!(
            "the message is not UTF-8 ({e}); take &[u8] for binary messages"
        ))
    })
}

/// The return type of the methods of [`TaskWorker`], as `#[async_trait]` writes it.
pub type TaskFuture<'a> = Pin<Box<dyn Future<Output = TaskResult> + Send + 'a>>;

/// Boxes the future of a worker function. The compiler shows this function's name if the future has
/// to stay on one thread.
pub fn the_future_of_this_worker_must_be_send<'a>(
    future: impl Future<Output = TaskResult> + Send + 'a,
) -> TaskFuture<'a> {
    Box::pin(future)
}

/// Checks a task type given by a constant, at compile time.
///
/// # Panics
/// If it is not a task type. A pattern is not one, because its workers are written differently.
#[must_use]
pub const fn constant_task_type(task_type: &'static str) -> &'static str {
    let bytes = task_type.as_bytes();
    assert!(
        !bytes.is_empty() && bytes.len() <= MAX_TASK_TYPE_BYTES,
        "invalid task type: use 1 to 100 of A-Z a-z 0-9 . _ - :"
    );
    let mut rest = bytes;
    while let [byte, after @ ..] = rest {
        assert!(
            *byte != b'*',
            "a pattern is not given by a constant: write it in quotes, as in type = \"report.*\""
        );
        assert!(
            is_word(*byte),
            "invalid task type: use 1 to 100 of A-Z a-z 0-9 . _ - :"
        );
        rest = after;
    }
    task_type
}

/// Checks that a job of `task_type` would reach the worker of `pattern`.
///
/// # Errors
/// [`Error::InvalidName`] or [`Error::InvalidInput`], naming both.
pub fn check_served(pattern: &str, task_type: &str) -> Result<()> {
    if TypePattern::new(pattern)?.matches(&TaskType::new(task_type)?) {
        return Ok(());
    }
    let reason = format!("{task_type:?} is not one of {pattern:?}, which this worker serves");
    Err(Error::invalid("task type", reason))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_for_a_pattern_worker_must_be_of_a_type_that_it_serves() {
        assert_eq!(check_served("report.*", "report.daily"), Ok(()));
        for refused in ["order.cancel", "report.*", "report daily", ""] {
            let error = check_served("report.*", refused).unwrap_err().to_string();
            assert!(error.contains(&format!("{refused:?}")), "{error}");
        }
    }
}
