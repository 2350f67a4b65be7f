//! Lines on the standard output, and the errors in them.

use delayq_plugin::Error;
use serde_json::{Value, json};

/// Prints a line.
pub(crate) fn say(line: &Value) {
    println!("{line}");
}

/// An error as the clients of other languages have it.
pub(crate) fn problem(error: &Error) -> Value {
    let (kind, status) = match error {
        Error::InvalidName { .. } | Error::InvalidInput { .. } | Error::Serialize { .. } => {
            ("bad-request", 400)
        }
        Error::UnknownType { .. } => ("unknown-type", 404),
        Error::Conflict { .. } => ("conflict", 409),
        Error::LockLost { .. } => ("lock-lost", 409),
        Error::LimitExceeded { .. } => ("limit-exceeded", 413),
        Error::QueueFull { .. } => ("queue-full", 429),
        Error::Unavailable { .. } | Error::ReadOnly { .. } | Error::Closed(_) => {
            ("unavailable", 503)
        }
        Error::Indeterminate { .. } => ("in-doubt", 504),
        Error::Full { .. } => ("store-full", 507),
        _ => ("store-error", 500),
    };
    json!({
        "kind": kind,
        "status": status,
        "is_repeatable": error.is_transient(),
        "detail": error.to_string(),
    })
}
