//! Errors that stop a transfer.

use std::fmt;

use super::TransferReport;

/// A transfer stopped before its end. The counts in the report are done; a repeat does the rest.
#[derive(Debug)]
#[non_exhaustive]
pub struct TransferError {
    /// The work done so far. Boxed, so that results stay small.
    pub report: Box<TransferReport>,
    /// The line at which it stopped, from 1; `None` for an export.
    pub line: Option<u64>,
    /// The reason.
    pub fault: TransferFault,
}

/// The reason why a transfer stopped.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TransferFault {
    /// The store failed.
    #[error(transparent)]
    Store(#[from] delayq_plugin::Error),
    /// The file failed.
    #[error(transparent)]
    File(#[from] std::io::Error),
    /// The line is not a task.
    #[error("{0}")]
    Line(String),
}

impl TransferError {
    pub(crate) fn new(report: TransferReport, line: Option<u64>, fault: TransferFault) -> Self {
        Self {
            report: Box::new(report),
            line,
            fault,
        }
    }
}

impl fmt::Display for TransferError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(line) = self.line {
            write!(f, "line {line}: ")?;
        }
        let TransferReport { read, written, .. } = *self.report;
        write!(
            f,
            "{} ({read} tasks read, {written} written before)",
            self.fault
        )
    }
}

impl std::error::Error for TransferError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.fault)
    }
}
