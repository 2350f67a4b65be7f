//! Push over gRPC.

use std::time::Duration;

use axum::http::Uri;
use bytes::{Buf, BufMut, Bytes};
use delayq_plugin::TaskError;
use delayq_plugin::store::{MAX_REPLY_BYTES, Reply};
use tonic::client::Grpc;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::{Code, Status};

use super::Guard;
use super::answer::shown;
use super::barred::{Forbidden, give_back};
use super::connector::GrpcClient;
use super::parcel::Parcel;
use super::target_kinds::GrpcTarget;

/// Makes one call. Returns the answer as the reply of the task.
pub(super) async fn push(
    client: &GrpcClient,
    guard: &Guard,
    target: &GrpcTarget,
    parcel: &Parcel<'_>,
    limit: Duration,
) -> Result<Option<Reply>, TaskError> {
    let url = guard.url(&target.url).map_err(TaskError::retry)?;
    let origin: Uri = url.as_str().parse().map_err(TaskError::from)?;
    let path = target.path().map_err(TaskError::dead)?;
    let place = format!("{}{path}", url.authority());
    let mut client = Grpc::with_origin(client.clone(), origin);
    client = client.max_decoding_message_size(MAX_REPLY_BYTES);
    let mut request = tonic::Request::new(Bytes::copy_from_slice(parcel.message));
    let mut headers = axum::http::HeaderMap::new();
    target.metadata.put_into(&mut headers);
    parcel.put_into(&mut headers);
    *request.metadata_mut() = tonic::metadata::MetadataMap::from_headers(headers);
    request.set_timeout(limit);
    client
        .ready()
        .await
        .map_err(|error| TaskError::retry(format!("{place}: {error}")))?;
    let answered = match client.unary(request, path, Plain).await {
        // The call succeeded, but its answer is too long to be kept.
        Err(status) if is_too_long(&status) => return Ok(None),
        answered => answered.map_err(|status| match Forbidden::of(&status) {
            Some(forbidden) => give_back(parcel.cx, &format!("{place}: {forbidden}")),
            None => failure(&place, &status),
        })?,
    };
    let answer = answered.into_inner();
    let reply = || Reply::bytes(answer.to_vec()).content_type("application/protobuf");
    Ok((!answer.is_empty()).then(reply))
}

/// Returns true if the client itself refused an answer as too long; tonic has no status code for
/// that.
fn is_too_long(status: &Status) -> bool {
    let refusal = "Error, decoded message length too large";
    status.code() == Code::OutOfRange && status.message().starts_with(refusal)
}

/// The error for a status: dead if no retry can succeed, and a retry otherwise.
fn failure(place: &str, status: &Status) -> TaskError {
    let mut error = format!("{place} answered {:?}", status.code());
    match status.message() {
        "" => {}
        message => error = format!("{error}: {}", shown(message)),
    }
    if let Some(cause) = std::error::Error::source(status) {
        error = super::http::unreached(&error, cause);
    }
    match status.code() {
        Code::InvalidArgument | Code::OutOfRange => TaskError::dead(error),
        _ => TaskError::retry(error),
    }
}

/// A codec for messages that are already encoded.
#[derive(Clone, Copy, Debug, Default)]
struct Plain;

impl Codec for Plain {
    type Encode = Bytes;
    type Decode = Bytes;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        Self
    }

    fn decoder(&mut self) -> Self {
        Self
    }
}

impl Encoder for Plain {
    type Item = Bytes;
    type Error = Status;

    fn encode(&mut self, item: Bytes, into: &mut EncodeBuf<'_>) -> Result<(), Status> {
        into.put(item);
        Ok(())
    }
}

impl Decoder for Plain {
    type Item = Bytes;
    type Error = Status;

    fn decode(&mut self, from: &mut DecodeBuf<'_>) -> Result<Option<Bytes>, Status> {
        Ok(Some(from.copy_to_bytes(from.remaining())))
    }
}
