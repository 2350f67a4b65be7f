//! The reason why a declared state is not applied.

use std::fmt;

use delayq_plugin::Error;

use crate::problem::Problem;

/// What is wrong, and what to change.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Refusal(String);

impl Refusal {
    pub(super) fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The same, with the place in the files before it.
    pub(super) fn at(place: impl fmt::Display, error: impl fmt::Display) -> Self {
        Self(format!("{place}: {error}"))
    }
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        Self(error.to_string())
    }
}

impl From<Problem> for Refusal {
    fn from(problem: Problem) -> Self {
        Self(problem.to_string())
    }
}
