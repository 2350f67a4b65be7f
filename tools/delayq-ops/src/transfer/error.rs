//! Why a transfer stopped.

use std::fmt;

use super::TransferReport;

/// A transfer stopped before its end. What the report counts is done; a repeat does the rest.
#[derive(Debug)]
#[non_exhaustive]
pub struct TransferError {
    /// What was done until then. In a box, so that results stay small.
    pub report: Box<TransferReport>,
    /// The line that it stopped at, from 1; `None` of an export.
    pub line: Option<u64>,
    /// Why.
    pub fault: TransferFault,
}

/// Why a transfer stopped.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TransferFault {
    /// The store failed.
    #[error(transparent)]
    Store(#[from] delayq_plugin::Error),
    /// The file failed.
    #[error(transparent)]
    File(#[from] std::io::Error),
    /// The line is no task.
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
