//! Failures of a command, and their exit codes.

use std::io;
use std::process::ExitCode;

use delayq_ops::{TransferError, TransferFault};
use delayq_plugin::{BulkError, ConfigError, Error};

/// The request was refused, or found nothing.
pub(crate) const REFUSED: u8 = 1;
/// The command line is wrong; clap uses the same code.
pub(crate) const USAGE: u8 = 2;
/// The store cannot be reached or used.
pub(crate) const NO_STORE: u8 = 3;
/// The answer of the store was lost.
pub(crate) const IN_DOUBT: u8 = 4;

/// The reason why a command failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// The error of the store, or of the check of a name or a filter.
    #[error("{0}")]
    Store(#[from] Error),
    /// A change of many tasks that stopped in the middle.
    #[error("{0}; the same command does the rest")]
    Bulk(#[from] BulkError),
    /// A change of many dead tasks that stopped in the middle.
    #[error(
        "{error}; until then {done} of {count} tasks were changed, the same command does the rest"
    )]
    Partly {
        /// The store's error.
        error: Error,
        /// The number changed.
        done: u64,
        /// The number selected.
        count: u64,
    },
    /// A transfer that stopped in the middle.
    #[error("{0}; {end}", end = rest(.0))]
    Transfer(#[from] TransferError),
    /// The configuration is invalid.
    #[error("{0}")]
    Config(#[from] ConfigError),
    /// The command line is wrong; the text says what to write.
    #[error("{0}")]
    Usage(String),
    /// The store does not exist; the text says what to do.
    #[error("{0}")]
    NoStore(String),
    /// The request was not carried out; the text says why, and what to do.
    #[error("{0}")]
    Refused(String),
    /// Input or output failed.
    #[error("{0}")]
    Output(#[from] io::Error),
}

impl Failure {
    /// A wrong command line.
    pub(crate) fn usage(text: impl Into<String>) -> Self {
        Self::Usage(text.into())
    }

    /// A request that was not carried out.
    pub(crate) fn refused(text: impl Into<String>) -> Self {
        Self::Refused(text.into())
    }

    /// The exit code of the program.
    pub(crate) fn code(&self) -> ExitCode {
        ExitCode::from(match self {
            Self::Store(error) | Self::Partly { error, .. } => of_store(error),
            Self::Bulk(failed) => of_store(&failed.error),
            Self::Transfer(failed) => match &failed.fault {
                TransferFault::Store(error) => of_store(error),
                TransferFault::Line(_) => USAGE,
                _ => REFUSED,
            },
            Self::Config(_) | Self::Usage(_) => USAGE,
            Self::NoStore(_) => NO_STORE,
            Self::Refused(_) | Self::Output(_) => REFUSED,
        })
    }
}

/// The way to do the rest of a transfer.
fn rest(failed: &TransferError) -> &'static str {
    match failed.fault {
        TransferFault::Line(_) => "mend or remove that line, then the same command does the rest",
        _ => "the same command does the rest",
    }
}

fn of_store(error: &Error) -> u8 {
    match error {
        Error::InvalidName { .. }
        | Error::InvalidInput { .. }
        | Error::LimitExceeded { .. }
        | Error::Serialize { .. } => USAGE,
        Error::Unavailable { .. }
        | Error::Misconfigured { .. }
        | Error::ReadOnly { .. }
        | Error::Full { .. }
        | Error::Corrupt { .. }
        | Error::Incompatible { .. }
        | Error::Closed(_) => NO_STORE,
        Error::Indeterminate { .. } => IN_DOUBT,
        _ => REFUSED,
    }
}
