//! Errors as gRPC statuses, in both directions.

use delayq_core::Error;
use prost::Message;
use tonic::{Code, Status};

use crate::pb;

/// The type URL of the error in a status's details.
const TYPE_URL: &str = "type.googleapis.com/delayq.v1.Error";

/// The details of a status: `google.rpc.Status`.
#[derive(Clone, PartialEq, Message)]
struct RpcStatus {
    #[prost(int32, tag = "1")]
    code: i32,
    #[prost(string, tag = "2")]
    message: String,
    #[prost(message, repeated, tag = "3")]
    details: Vec<prost_types::Any>,
}

/// The status code for an error.
fn code_of(error: &Error) -> Code {
    match error {
        Error::InvalidName { .. } | Error::InvalidInput { .. } | Error::LimitExceeded { .. } => {
            Code::InvalidArgument
        }
        Error::UnknownType { .. } => Code::NotFound,
        Error::Conflict { .. } => Code::AlreadyExists,
        Error::TypeInUse { .. } | Error::FleetLimitOnShards { .. } => Code::FailedPrecondition,
        Error::QueueFull { .. } | Error::Full { .. } => Code::ResourceExhausted,
        Error::Unavailable { .. } | Error::ReadOnly { .. } | Error::Closed(_) => Code::Unavailable,
        Error::Indeterminate { .. } => Code::DeadlineExceeded,
        Error::Unsupported(_) => Code::Unimplemented,
        Error::Corrupt { .. } | Error::Incompatible { .. } => Code::DataLoss,
        _ => Code::Internal,
    }
}

/// The status of a failed call. Its details contain the error.
#[must_use]
pub fn status_of(error: Error) -> Status {
    let code = code_of(&error);
    let message = error.to_string();
    let details = RpcStatus {
        code: code.into(),
        message: message.clone(),
        details: vec![prost_types::Any {
            type_url: TYPE_URL.to_owned(),
            value: pb::Error::from(error).encode_to_vec(),
        }],
    };
    Status::with_details(code, message, details.encode_to_vec().into())
}

/// The error in the details of a status; `None` if there is none. Such a status comes from a proxy
/// or from the transport.
#[must_use]
pub fn error_of(status: &Status) -> Option<Error> {
    let details = RpcStatus::decode(status.details()).ok()?;
    let mut details = details.details.iter();
    let detail = details.find(|detail| detail.type_url == TYPE_URL)?;
    let error = pb::Error::decode(detail.value.as_slice()).ok()?;
    Some(error.into())
}
