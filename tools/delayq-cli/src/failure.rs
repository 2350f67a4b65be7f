//! Why a command failed, and the code that the program ends with.

use std::io;
use std::process::ExitCode;

use delayq_ops::{TransferError, TransferFault};
use delayq_plugin::{BulkError, ConfigError, Error};

/// The request was refused, or found nothing.
pub(crate) const REFUSED: u8 = 1;
/// The command line is wrong; clap uses the same.
pub(crate) const USAGE: u8 = 2;
/// The store is not reached, or cannot be used.
pub(crate) const NO_STORE: u8 = 3;
/// The answer of the store was lost.
pub(crate) const IN_DOUBT: u8 = 4;

/// Why a command failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// What the store, or the check of a name or a filter, said.
    #[error("{0}")]
    Store(#[from] Error),
    /// A change of many tasks that ended in the middle.
    #[error("{0}; the same command does the rest")]
    Bulk(#[from] BulkError),
    /// A change of many dead tasks that ended in the middle.
    #[error(
        "{error}; until then {done} of {count} tasks were changed, the same command does the rest"
    )]
    Partly {
        /// What the store said.
        error: Error,
        /// How many were changed.
        done: u64,
        /// How many were meant.
        count: u64,
    },
    /// A transfer that ended in the middle.
    #[error("{0}; {end}", end = rest(.0))]
    Transfer(#[from] TransferError),
    /// The configuration cannot be used.
    #[error("{0}")]
    Config(#[from] ConfigError),
    /// The command line is wrong; the text says what to write.
    #[error("{0}")]
    Usage(String),
    /// The store is not there; the text says what to do.
    #[error("{0}")]
    NoStore(String),
    /// Not done; the text says why, and what to do.
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

    /// A request that was not done.
    pub(crate) fn refused(text: impl Into<String>) -> Self {
        Self::Refused(text.into())
    }

    /// The code that the program ends with.
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

/// How the rest of a transfer is done.
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
