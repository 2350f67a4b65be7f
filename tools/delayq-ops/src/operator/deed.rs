//! The meaning of an error for a change.

use delayq_plugin::Error;

/// True if the store refused the change because of its content, and changed nothing.
pub(super) fn is_refusal(error: &Error) -> bool {
    matches!(
        error,
        Error::Conflict { .. } | Error::QueueFull { .. } | Error::TypeInUse { .. }
    )
}

/// True if the caller made a mistake, and the store was not asked.
pub(super) fn is_no_deed(error: &Error) -> bool {
    matches!(
        error,
        Error::InvalidInput { .. }
            | Error::InvalidName { .. }
            | Error::LimitExceeded { .. }
            | Error::UnknownType { .. }
    )
}
