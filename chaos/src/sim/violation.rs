//! A broken promise of the model.

use std::fmt;

use crate::check::Promise;

/// A broken promise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Which one.
    pub promise: Promise,
    /// The task, by its place in the model.
    pub task: u8,
    /// What happened.
    pub what: &'static str,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: task {}: {}", self.promise, self.task, self.what)
    }
}
