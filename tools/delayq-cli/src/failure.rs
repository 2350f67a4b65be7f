//! Failures of a command, and their exit codes.

use std::io;

use delayq_ops::{TransferError, TransferFault};
use delayq_plugin::{BulkError, ConfigError, Error, TaskState};
use serde_json::{Value, json};

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
    #[error("{}", said(.0))]
    Store(#[from] Error),
    /// The same, of a command that makes a type if it is told to.
    #[error("{}", or_create(.0))]
    Unmade(Error),
    /// A change of many tasks that stopped in the middle.
    #[error("{0}; the same command does the rest")]
    Bulk(#[from] BulkError),
    /// A change of many dead tasks that stopped in the middle.
    #[error("{error}; {done} of {count} tasks were changed before, the same command does the rest")]
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
    pub(crate) fn code(&self) -> u8 {
        match self {
            Self::Store(error) | Self::Unmade(error) | Self::Partly { error, .. } => {
                of_store(error)
            }
            Self::Bulk(failed) => of_store(&failed.error),
            Self::Transfer(failed) => match &failed.fault {
                TransferFault::Store(error) => of_store(error),
                TransferFault::Line(_) => USAGE,
                _ => REFUSED,
            },
            Self::Config(_) | Self::Usage(_) => USAGE,
            Self::NoStore(_) => NO_STORE,
            Self::Refused(_) | Self::Output(_) => REFUSED,
        }
    }

    /// The error as a document.
    pub(crate) fn document(&self) -> Value {
        let nearest = match self {
            Self::Store(error) | Self::Unmade(error) => match error {
                Error::UnknownType { nearest, .. } => nearest.clone(),
                _ => None,
            },
            _ => None,
        };
        let mut document = error_document(self.code(), &self.to_string());
        if let (Some(error), Some(name)) = (document.get_mut("error"), nearest) {
            error["nearest"] = Value::String(name);
        }
        document
    }
}

/// An error as a document: its exit code, the kind that the code stands for, and the message.
pub(crate) fn error_document(code: u8, message: &str) -> Value {
    let kind = match code {
        USAGE => "usage",
        NO_STORE => "store",
        IN_DOUBT => "in_doubt",
        _ => "refused",
    };
    json!({"error": {"code": code, "kind": kind, "message": message}})
}

/// An error in words of the command line.
fn said(error: &Error) -> String {
    match error {
        Error::UnknownType { nearest: None, .. } => {
            format!("{error}: `delayq types` lists those that there are")
        }
        Error::Conflict {
            task_type,
            id,
            state,
        } => {
            let way_out = match state {
                TaskState::Scheduled | TaskState::Dead => "use another id, or --replace or --keep",
                TaskState::Running => "use another id, or --keep",
                _ => "use another id",
            };
            format!("task {id:?} of type {task_type} exists already and is {state}: {way_out}")
        }
        Error::FleetLimitOnShards { task_type, shards } => format!(
            "task type {task_type} has {shards} shards and a fleet limit, which exclude each \
             other: leave out --shards, or write --fleet-concurrency none --fleet-rate none (a \
             type that is sharded stays sharded)"
        ),
        error => error.to_string(),
    }
}

/// The error of a command that makes a type with `--create`.
fn or_create(error: &Error) -> String {
    match error {
        Error::UnknownType {
            types,
            nearest: None,
        } => format!("there is no task type {types}: --create makes it"),
        Error::UnknownType { .. } => format!("{error} --create makes the new one"),
        error => said(error),
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
