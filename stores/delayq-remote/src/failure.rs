//! Failed calls: certainly not applied, or in doubt.

use std::error::Error as _;

use delayq_core::Error;
use delayq_core::error::readable_tls;
use delayq_proto::error_of;
use tonic::{Code, ConnectError, Status};

/// The error for a failed call to `store`.
pub(crate) fn failure(store: &str, status: &Status) -> Error {
    match error_of(status) {
        // The server's store is closed, not this one, and the server will be back.
        Some(Error::Closed(_)) => {
            return Error::unavailable(store, "the server is being shut down");
        }
        Some(error) => return error,
        None => {}
    }
    if was_not_sent(status) {
        return Error::unavailable(store, reason(status));
    }
    let message = status.message().to_owned();
    match status.code() {
        Code::Unauthenticated | Code::PermissionDenied => {
            let fix = "put a token into the URL that may do this: delayq-server token create";
            Error::misconfigured(store, format!("the server refuses: {message}"), fix)
        }
        Code::NotFound => {
            let fix = "declare the namespace in the configuration of the server";
            Error::misconfigured(store, format!("the server refuses: {message}"), fix)
        }
        Code::InvalidArgument | Code::OutOfRange => Error::invalid("request", message),
        // A limit of the server, checked before anything else.
        Code::ResourceExhausted => Error::unavailable(store, message),
        Code::Unimplemented => Error::Unsupported("this operation: the server has another release"),
        _ => Error::indeterminate(store, format!("{:?}: {}", status.code(), reason(status))),
    }
}

/// True if the call certainly did nothing because the server is away: there was no connection, or
/// the server is being shut down.
pub(crate) fn is_away(status: &Status) -> bool {
    was_not_sent(status) || matches!(error_of(status), Some(Error::Closed(_)))
}

/// True if there was no connection to send the call on.
fn was_not_sent(status: &Status) -> bool {
    let mut source = status.source();
    while let Some(error) = source {
        if error.is::<ConnectError>() {
            return true;
        }
        source = error.source();
    }
    false
}

/// The innermost cause, which is the most specific.
fn reason(status: &Status) -> String {
    let mut source = status.source();
    let mut text = status.message().to_owned();
    while let Some(error) = source {
        text = error.to_string();
        source = error.source();
    }
    readable_tls(&text).into_owned()
}
