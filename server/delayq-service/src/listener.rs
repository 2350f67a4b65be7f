//! Listeners and their accept errors.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::net::TcpListener;
use tracing::{debug, warn};

/// The pause in accepting connections after an error such as too many open files.
const AFTER_ERROR: Duration = Duration::from_millis(100);

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
    warn!(%error, "cannot accept connections; the limit of open files may be too low");
    tokio::time::sleep(AFTER_ERROR).await;
}
