//! Result of an attempt.

use std::fmt;
use std::time::Duration;

/// The result of an attempt.
pub type TaskResult = Result<(), TaskError>;

/// How an attempt failed, which decides what happens next.
///
/// Any error converts with `?` and means a retry by the retry policy. An error is a
/// `std::error::Error` that is `Send + Sync + 'static`, an `anyhow::Error` or the like, or text.
#[derive(Debug)]
#[non_exhaustive]
pub enum TaskError {
    /// Retry according to the retry policy; dead after the last attempt.
    Retry(String),
    /// Retry after this wait instead of the policy's; still counts as an attempt.
    RetryAfter(Duration, String),
    /// Never retry: dead at once.
    Dead(String),
    /// Give the task back, due after this wait, without using up an attempt.
    Release(Duration),
    /// The attempt was already settled with its lock by somebody else: there is nothing left to
    /// settle. Used by a server whose instances settle their tasks later.
    #[doc(hidden)]
    Settled,
}

impl TaskError {
    /// A retry according to the retry policy.
    pub fn retry(error: impl fmt::Display) -> Self {
        Self::Retry(error.to_string())
    }

    /// A retry after `wait` instead of the policy's wait; the policy's number of attempts still
    /// applies.
    pub fn retry_after(wait: Duration, error: impl fmt::Display) -> Self {
        Self::RetryAfter(wait, error.to_string())
    }

    /// No retry: the task goes to dead at once, with this error.
    pub fn dead(error: impl fmt::Display) -> Self {
        Self::Dead(error.to_string())
    }

    /// Gives the task back without using up an attempt; it is due again after `wait`. For waiting
    /// on something when nothing is wrong: after a failed call use a retry. After
    /// [`max_releases`](crate::WorkerOptions::max_releases) the task is dead.
    #[must_use]
    pub fn release(wait: Duration) -> Self {
        Self::Release(wait)
    }
}

// Converts through the box, because `anyhow::Error` is not a `std::error::Error` but converts to a
// boxed one. Without the attribute the compiler reports three errors about the box.
#[diagnostic::do_not_recommend]
impl<E: Into<Box<dyn std::error::Error + Send + Sync>>> From<E> for TaskError {
    /// The error and its sources, joined by `: `.
    fn from(error: E) -> Self {
        let error = error.into();
        let mut text = error.to_string();
        let mut source = error.source();
        while let Some(cause) = source {
            text = format!("{text}: {cause}");
            source = cause.source();
        }
        Self::Retry(text)
    }
}
