//! What an error says of a deed.

use delayq_plugin::Error;

/// Whether the store has changed nothing, because of what it holds.
pub(super) fn is_refusal(error: &Error) -> bool {
    matches!(
        error,
        Error::Conflict { .. } | Error::QueueFull { .. } | Error::TypeInUse { .. }
    )
}

/// Whether the caller was mistaken, and the store was not asked.
pub(super) fn is_no_deed(error: &Error) -> bool {
    matches!(
        error,
        Error::InvalidInput { .. } | Error::InvalidName { .. } | Error::LimitExceeded { .. }
    )
}
