//! What a connection is busy with, so that an idle one can be closed.

use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::{Body, Bytes, HttpBody};
use hyper::body::{Frame, SizeHint};
use tokio::sync::watch;

/// The number of requests of a connection that are under way.
#[derive(Clone, Debug, Default)]
pub(super) struct Activity(watch::Sender<usize>);

impl Activity {
    /// Begins a request. It ends when the guard is dropped.
    pub(super) fn begin(&self) -> Busy {
        self.0.send_modify(|requests| *requests += 1);
        Busy(self.0.clone())
    }

    /// The number of requests, and its changes.
    pub(super) fn watch(&self) -> watch::Receiver<usize> {
        self.0.subscribe()
    }
}

/// A request under way.
#[derive(Debug)]
pub(super) struct Busy(watch::Sender<usize>);

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.send_modify(|requests| *requests -= 1);
    }
}

/// The body of an answer. The request is under way until it was sent.
#[derive(Debug)]
pub(super) struct BusyBody {
    body: Body,
    _busy: Busy,
}

impl BusyBody {
    pub(super) fn new(body: Body, busy: Busy) -> Self {
        Self { body, _busy: busy }
    }
}

impl HttpBody for BusyBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
