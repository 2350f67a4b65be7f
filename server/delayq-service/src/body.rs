//! Bodies of requests: the room for all of them together, and the ways to read one.

use std::error::Error;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody, to_bytes};
use axum::http::HeaderMap;
use axum::http::header::CONTENT_TYPE;
use http_body_util::LengthLimitError;
use hyper::body::{Frame, SizeHint};
use tokio::time::Sleep;
use tonic::Status;

use crate::grpc_server::status_of_problem;
use crate::problem::Problem;
use crate::server_metric::BODIES_REFUSED;

mod grpc_messages;

use grpc_messages::GrpcMessages;

/// The memory for the bodies of all requests together. Cheap to clone.
#[derive(Clone, Debug)]
pub struct BodyRoom {
    max: usize,
    used: Arc<AtomicUsize>,
}

/// There is no room for a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the server reads too many large bodies at once: send it again later")]
pub struct NoRoom;

/// A body did not arrive in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the body was not here after {0:?}: send it faster")]
pub struct Stalled(pub Duration);

impl BodyRoom {
    /// Room for `max` bytes.
    pub fn new(max: usize) -> Self {
        Self {
            max,
            used: Arc::default(),
        }
    }

    /// The share of a new request, of nothing yet.
    pub fn share(&self) -> Arc<BodyShare> {
        Arc::new(BodyShare {
            room: self.clone(),
            held: AtomicUsize::new(0),
        })
    }

    /// The bytes that all requests hold.
    pub fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }

    fn take(&self, bytes: usize) -> Result<(), NoRoom> {
        let take = |used: usize| used.checked_add(bytes).filter(|used| *used <= self.max);
        let order = Ordering::Relaxed;
        let taken = self.used.fetch_update(order, order, take);
        taken.map(drop).map_err(|_| {
            metrics::counter!(BODIES_REFUSED).increment(1);
            NoRoom
        })
    }

    fn give_back(&self, bytes: usize) {
        self.used.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// The part of the room that one request holds. It is given back when the share is dropped.
#[derive(Debug)]
pub struct BodyShare {
    room: BodyRoom,
    held: AtomicUsize,
}

/// True for a call of gRPC, by its path, `/PACKAGE.SERVICE/METHOD`, and its content type. The type
/// alone would let a client have other bodies counted as single messages.
pub fn is_grpc_call(path: &str, headers: &HeaderMap) -> bool {
    let mut parts = path.split('/').skip(1);
    let is_service = parts.next().is_some_and(|service| service.contains('.'));
    let has_method = parts.next().is_some() && parts.next().is_none();
    let kind = headers.get(CONTENT_TYPE);
    let is_kind = kind.is_some_and(|kind| kind.as_bytes().starts_with(b"application/grpc"));
    is_service && has_method && is_kind
}

impl BodyShare {
    /// Holds so many bytes from now on, instead of those before. If there is no room for more,
    /// those before stay held.
    pub fn hold(&self, bytes: usize) -> Result<(), NoRoom> {
        let held = self.held.load(Ordering::Relaxed);
        if bytes > held {
            self.room.take(bytes - held)?;
        } else {
            self.room.give_back(held - bytes);
        }
        self.held.store(bytes, Ordering::Relaxed);
        Ok(())
    }

    /// The same body, whose bytes count as held when they arrive. It ends with an error if there is
    /// no room for them, or if nothing arrives for `patience`.
    pub fn metered(self: &Arc<Self>, body: Body, is_grpc: bool, patience: Duration) -> Body {
        Body::new(MeteredBody {
            inner: body,
            share: Arc::clone(self),
            messages: is_grpc.then(GrpcMessages::default),
            patience,
            timer: None,
        })
    }
}

impl Drop for BodyShare {
    fn drop(&mut self) {
        self.room.give_back(*self.held.get_mut());
    }
}

/// A body whose bytes count as held.
#[derive(Debug)]
struct MeteredBody {
    inner: Body,
    share: Arc<BodyShare>,
    /// The messages of a gRPC call; `None` for other requests.
    messages: Option<GrpcMessages>,
    patience: Duration,
    /// Runs while bytes are expected.
    timer: Option<Pin<Box<Sleep>>>,
}

impl MeteredBody {
    /// Counts the bytes of a part. A plain body is held as a whole until its request ends. Of a
    /// gRPC stream only the last message is held.
    fn count(&mut self, part: &Bytes) -> Result<(), NoRoom> {
        let Some(messages) = &mut self.messages else {
            self.timer = None;
            let held = self.share.held.load(Ordering::Relaxed);
            return self.share.hold(held.saturating_add(part.len()));
        };
        let held = messages.take(part);
        if !messages.is_within() {
            self.timer = None;
        }
        self.share.hold(held)
    }

    /// An error in the form that the reader of the body understands.
    fn error(&self, error: impl Error + Send + Sync + 'static) -> axum::Error {
        let problem = problem_of(&error);
        match (&self.messages, problem) {
            (Some(_), Some(problem)) => axum::Error::new(status_of(&problem)),
            _ => axum::Error::new(error),
        }
    }
}

impl HttpBody for MeteredBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let body = &mut *self;
        if let Poll::Ready(frame) = Pin::new(&mut body.inner).poll_frame(context) {
            let data = frame
                .as_ref()
                .and_then(|frame| frame.as_ref().ok()?.data_ref());
            return match data.cloned().map(|data| body.count(&data)) {
                Some(Err(no_room)) => Poll::Ready(Some(Err(body.error(no_room)))),
                _ => Poll::Ready(frame),
            };
        }
        if body.messages.as_ref().is_none_or(GrpcMessages::is_within) {
            let patience = body.patience;
            let timer = body
                .timer
                .get_or_insert_with(|| Box::pin(tokio::time::sleep(patience)));
            if timer.as_mut().poll(context).is_ready() {
                return Poll::Ready(Some(Err(body.error(Stalled(patience)))));
            }
        }
        Poll::Pending
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

/// The problem that made reading a body fail, if it is one of the room or of the time.
pub fn problem_of(error: &(dyn Error + 'static)) -> Option<Problem> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(no_room) = error.downcast_ref::<NoRoom>() {
            return Some(Problem::unavailable(no_room.to_string()));
        }
        if let Some(stalled) = error.downcast_ref::<Stalled>() {
            return Some(Problem::too_slow(stalled.to_string()));
        }
        next = error.source();
    }
    None
}

fn status_of(problem: &Problem) -> Status {
    if problem.status().is_server_error() {
        return status_of_problem(problem);
    }
    Status::deadline_exceeded(problem.to_string())
}

/// Reads a body of at most `most` bytes, within `patience`.
///
/// # Errors
/// `limit-exceeded`, `too-slow`, and `unavailable` if there is no room for it.
pub async fn read(body: Body, most: usize, patience: Duration) -> Result<Vec<u8>, Problem> {
    let too_large = || Problem::too_large(format!("the body has more than {most} bytes"));
    if body.size_hint().lower() > u64::try_from(most).unwrap_or(u64::MAX) {
        return Err(too_large());
    }
    let read = tokio::time::timeout(patience, to_bytes(body, most)).await;
    let read = read.map_err(|_| Problem::too_slow(Stalled(patience).to_string()))?;
    read.map(|bytes| bytes.to_vec()).map_err(|error| {
        let is_too_large = error
            .source()
            .is_some_and(<dyn Error>::is::<LengthLimitError>);
        if is_too_large {
            return too_large();
        }
        problem_of(&error).unwrap_or_else(|| Problem::bad_request(error.to_string()))
    })
}

#[cfg(test)]
mod tests;
