//! Why a bulk change ended early.

use std::fmt;

use delayq_core::Error;

use super::BulkReport;

/// Why a bulk change failed, and what it had done until then. The same call can be repeated.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[error("{error}; until then {} of {} matching tasks were changed", report.changed, report.matched)]
#[non_exhaustive]
pub struct BulkError {
    /// What was done. A task whose own call failed is in `matched` alone.
    pub report: Box<BulkReport>,
    /// The first failure.
    #[source]
    pub error: Error,
}

impl BulkError {
    /// Nothing was done.
    #[must_use]
    pub fn before(error: Error) -> Self {
        Self {
            report: Box::default(),
            error,
        }
    }
}

/// The message, as `Display` has it: a `main` that returns an error prints this.
impl fmt::Debug for BulkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The failure alone, for functions that return this crate's error.
impl From<BulkError> for Error {
    fn from(failed: BulkError) -> Self {
        failed.error
    }
}
