//! Why a run cannot go on: a defect of the harness or of the machine, not of what is tested.

use std::fmt;

/// What the harness returns.
pub(crate) type Result<T, E = Failure> = std::result::Result<T, E>;

/// What went wrong, for a person.
#[derive(Debug)]
pub(crate) struct Failure(pub(crate) String);

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl<E: std::error::Error> From<E> for Failure {
    fn from(error: E) -> Self {
        Self(error.to_string())
    }
}

/// A failure that says `what`.
pub(crate) fn failure<T>(what: impl Into<String>) -> Result<T> {
    Err(Failure(what.into()))
}
