//! Listeners and their accept errors.

use std::io;
use std::net::SocketAddr;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::time::Instant;
use tracing::{debug, warn};

/// The pause in accepting connections after an error such as too many open files.
const AFTER_ERROR: Duration = Duration::from_millis(100);

/// The time between two lines of the log about such errors.
const BETWEEN_LINES: Duration = Duration::from_secs(10);

/// The lines of all listeners: while files run out, each one fails ten times a second.
static LOG: Mutex<AcceptLog> = Mutex::new(AcceptLog {
    last: None,
    withheld: 0,
});

/// Rations the lines of the log.
#[derive(Debug)]
struct AcceptLog {
    last: Option<Instant>,
    withheld: u64,
}

impl AcceptLog {
    /// The number of errors since the last line, if another line is allowed now.
    fn turn(&mut self, now: Instant) -> Option<u64> {
        if self.last.is_some_and(|last| now < last + BETWEEN_LINES) {
            self.withheld += 1;
            return None;
        }
        self.last = Some(now);
        Some(std::mem::take(&mut self.withheld))
    }
}

/// Listens on an address.
pub async fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    TcpListener::bind(address).await
}

/// Handles an accept error. An error of one connection is ignored; after any other, waits a moment.
pub async fn after(error: &io::Error) {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    if matches!(
        error.kind(),
        ConnectionAborted | ConnectionRefused | ConnectionReset
    ) {
        debug!(%error, "a connection ended before it was accepted");
        return;
    }
    if let Some(withheld) = LOG
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .turn(Instant::now())
    {
        warn!(%error, withheld, "cannot accept connections; the limit of open files may be too low");
    }
    tokio::time::sleep(AFTER_ERROR).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_without_an_end_are_a_line_every_ten_seconds() {
        let (start, mut log) = (
            Instant::now(),
            AcceptLog {
                last: None,
                withheld: 0,
            },
        );
        let at = |tenth: u64| start + Duration::from_millis(100 * tenth);
        let lines: Vec<_> = (0..=200).filter_map(|tenth| log.turn(at(tenth))).collect();
        assert_eq!(lines, [0, 99, 99]);
    }
}
