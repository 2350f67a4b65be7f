//! What a connection is busy with, so that an idle one can be closed.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody};
use hyper::body::{Frame, SizeHint};
use tokio::time::Instant;

/// The requests of a connection. The time of the last change is read when the connection may have
/// been idle for too long, so a request costs no wake-up and sets no timer.
#[derive(Clone, Debug)]
pub(super) struct Activity(Arc<Requests>);

#[derive(Debug)]
struct Requests {
    opened_at: Instant,
    /// Requests under way.
    running: AtomicUsize,
    /// Milliseconds from the opening to the last begin or end of a request, plus one; 0 before the
    /// first request.
    changed: AtomicU64,
}

impl Activity {
    /// Of a connection that was opened now.
    pub(super) fn new() -> Self {
        Self(Arc::new(Requests {
            opened_at: Instant::now(),
            running: AtomicUsize::new(0),
            changed: AtomicU64::new(0),
        }))
    }

    /// Begins a request. It ends when the guard is dropped.
    pub(super) fn begin(&self) -> Busy {
        self.0.running.fetch_add(1, Ordering::Relaxed);
        self.0.touch();
        Busy(Arc::clone(&self.0))
    }

    /// True if a request has begun.
    pub(super) fn is_used(&self) -> bool {
        self.0.changed.load(Ordering::Acquire) > 0
    }

    /// The time since when no request has been under way; the present time during a request, and
    /// the time of the opening before the first one.
    pub(super) fn idle_since(&self) -> Instant {
        let changed = self.0.changed.load(Ordering::Acquire);
        if self.0.running.load(Ordering::Relaxed) > 0 {
            return Instant::now();
        }
        self.0.opened_at + Duration::from_millis(changed.saturating_sub(1))
    }
}

impl Requests {
    fn touch(&self) {
        let since = self.opened_at.elapsed().as_millis();
        let since = u64::try_from(since).unwrap_or(u64::MAX - 1);
        self.changed.fetch_max(since + 1, Ordering::Release);
    }
}

/// A request under way.
#[derive(Debug)]
pub(super) struct Busy(Arc<Requests>);

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.touch();
        self.0.running.fetch_sub(1, Ordering::Release);
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
