//! What pushes are sent to: it answers every request with 200, and notes how late it was.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hdrhistogram::Histogram;
use rustix::time::{ClockId, clock_gettime};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;

use crate::Failure;

/// How long the next push may take to come.
const PATIENCE: Duration = Duration::from_secs(30);

/// What came.
#[derive(Debug)]
struct Came {
    late: Histogram<u64>,
    early: usize,
}

/// A listener on a port of its own.
#[derive(Debug)]
pub(crate) struct Echo {
    pub(crate) address: String,
    came: Arc<Mutex<Came>>,
    news: Arc<Notify>,
}

impl Echo {
    pub(crate) async fn start() -> Result<Self, Failure> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?.to_string();
        let (late, early) = (Histogram::new(3)?, 0);
        let came = Arc::new(Mutex::new(Came { late, early }));
        let news = Arc::new(Notify::new());
        let echo = Self {
            address,
            came: Arc::clone(&came),
            news: Arc::clone(&news),
        };
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, Arc::clone(&came), Arc::clone(&news)));
            }
        });
        Ok(echo)
    }

    /// Waits until so many requests have come.
    pub(crate) async fn received(&self, tasks: usize) -> Result<(), Failure> {
        while self.count() < tasks {
            let next = tokio::time::timeout(PATIENCE, self.news.notified()).await;
            next.map_err(|_| format!("{} of {tasks} pushes came", self.count()))?;
        }
        Ok(())
    }

    /// Lateness in ms, and how many were early.
    pub(crate) fn lateness(&self) -> String {
        let came = self.came.lock().unwrap_or_else(PoisonError::into_inner);
        let at = |quantile| came.late.value_at_quantile(quantile) as f64 / 1_000.0;
        format!(
            "p50 {:.1} ms, p99 {:.1} ms, largest {:.1} ms, early {}",
            at(0.5),
            at(0.99),
            came.late.max() as f64 / 1_000.0,
            came.early
        )
    }

    fn count(&self) -> usize {
        let came = self.came.lock().unwrap_or_else(PoisonError::into_inner);
        usize::try_from(came.late.len()).unwrap_or(usize::MAX)
    }
}

async fn serve(mut stream: TcpStream, came: Arc<Mutex<Came>>, news: Arc<Notify>) {
    stream.set_nodelay(true).ok();
    let (mut received, mut buffer) = (Vec::new(), vec![0; 16_384]);
    while let Ok(read @ 1..) = stream.read(&mut buffer).await {
        received.extend_from_slice(buffer.get(..read).unwrap_or_default());
        while let Some((length, due)) = request(&received) {
            received.drain(..length);
            let time = clock_gettime(ClockId::Realtime);
            let now = time.tv_sec * 1_000_000 + time.tv_nsec / 1_000;
            {
                let mut came = came.lock().unwrap_or_else(PoisonError::into_inner);
                came.early += usize::from(now < due);
                let late = u64::try_from(now - due).unwrap_or_default().max(1);
                came.late.record(late).ok();
            }
            news.notify_one();
            let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";
            if stream.write_all(answer).await.is_err() {
                return;
            }
        }
    }
}

/// The length of a complete request, and when its task was due, in microseconds.
fn request(received: &[u8]) -> Option<(usize, i64)> {
    let mut headers = [httparse::EMPTY_HEADER; 48];
    let mut request = httparse::Request::new(&mut headers);
    let Ok(httparse::Status::Complete(begin)) = request.parse(received) else {
        return None;
    };
    let number = |name: &str| -> Option<i64> {
        let mut headers = request.headers.iter();
        let header = headers.find(|header| header.name.eq_ignore_ascii_case(name))?;
        str::from_utf8(header.value).ok()?.parse().ok()
    };
    let length = usize::try_from(number("content-length").unwrap_or(0)).ok()?;
    let due = number("delayq-due-at")? * 1_000;
    let end = begin + length;
    (received.len() >= end).then_some((end, due))
}
