//! How much a connection has written.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Bytes in a time-out that show a client reading its answer. The server's own pings are fewer.
const PROGRESS: usize = 4096;

/// Number of time-outs for which an answer may wait for a client that reads nothing. The system
/// takes more of an answer only in large parts, so a slow client seems to stand still.
const STALLS: usize = 10;

/// What a connection has written since the last time-out.
#[derive(Clone, Debug, Default)]
pub(super) struct Written(Arc<Counts>);

#[derive(Debug, Default)]
struct Counts {
    bytes: AtomicUsize,
    is_blocked: AtomicBool,
    /// The time-outs in a row without progress.
    stalls: AtomicUsize,
}

impl Written {
    /// At a time-out: true if the client reads an answer, or has had too little time to do so.
    pub(super) fn is_read(&self) -> bool {
        let counts = &*self.0;
        if counts.bytes.swap(0, Ordering::Relaxed) >= PROGRESS {
            counts.stalls.store(0, Ordering::Relaxed);
            return true;
        }
        let stalls = counts.stalls.fetch_add(1, Ordering::Relaxed);
        counts.is_blocked.load(Ordering::Relaxed) && stalls < STALLS
    }

    /// Counts what is written to this stream.
    pub(super) fn of<I>(&self, stream: I) -> Counted<I> {
        Counted {
            stream,
            written: self.clone(),
        }
    }

    fn add(&self, written: &Poll<io::Result<usize>>) {
        self.0
            .is_blocked
            .store(written.is_pending(), Ordering::Relaxed);
        if let Poll::Ready(Ok(bytes)) = written {
            self.0.bytes.fetch_add(*bytes, Ordering::Relaxed);
        }
    }
}

/// A stream whose written bytes are counted.
#[derive(Debug)]
pub(super) struct Counted<I> {
    stream: I,
    written: Written,
}

impl<I: AsyncRead + Unpin> AsyncRead for Counted<I> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<I: AsyncWrite + Unpin> AsyncWrite for Counted<I> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.written.add(&written);
        written
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, slices);
        self.written.add(&written);
        written
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
