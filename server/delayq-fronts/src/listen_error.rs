//! The reason why a front cannot listen.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

/// The reason why a front cannot listen.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// The address cannot be used.
    #[error("cannot listen on {address}: {error}")]
    Address {
        address: SocketAddr,
        error: io::Error,
    },
    /// The Unix socket cannot be used.
    #[error("cannot listen on unix:{}: {error}", path.display())]
    Socket { path: PathBuf, error: io::Error },
    /// The front is configured, and this program was built without it.
    #[error("{option}: this server was built without it: use one with the feature {feature}")]
    NotBuilt {
        option: &'static str,
        feature: &'static str,
    },
}
