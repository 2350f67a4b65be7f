//! Result of an attempt.

use std::fmt;
use std::time::Duration;

/// What an attempt returns.
pub type TaskResult = Result<(), TaskError>;

/// How an attempt failed, which decides what happens next.
///
/// Any error converts with `?` and means: try again by the retry policy. An error is a
/// `std::error::Error` that is `Send + Sync + 'static`, an `anyhow::Error` or the like, or text.
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
    /// Somebody else has settled the attempt with its lock: nothing is left to settle. Of a server
    /// whose instances settle their tasks later.
    #[doc(hidden)]
    Settled,
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

    /// Gives the task back without burning an attempt; it is due again after `wait`. For waiting on
    /// something that is not wrong: a call that fails is a retry. After
    /// [`max_releases`](crate::WorkerOptions::max_releases) the task is dead.
    #[must_use]
    pub fn release(wait: Duration) -> Self {
        Self::Release(wait)
    }
}

// By way of the box, because `anyhow::Error` is no `std::error::Error`, but boxes itself as one.
// Without the attribute the compiler tells in three errors what the box lacks.
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
