//! Target of a connection.

use std::sync::Arc;

use delayq_core::Result;

use super::fault::ConnectError;
use super::sentinel::Sentinels;
use crate::config::Address;

/// The server that a connection leads to.
#[derive(Clone)]
pub(super) enum Target {
    /// Always this server.
    Fixed(Address),
    /// The master at the time of connecting.
    Master(Arc<Sentinels>),
}

impl Target {
    pub(super) fn fixed(&self) -> Option<&Address> {
        match self {
            Self::Fixed(address) => Some(address),
            Self::Master(_) => None,
        }
    }

    /// True if the server can change between connections.
    pub(super) fn may_change(&self) -> bool {
        self.fixed().is_none()
    }

    pub(super) async fn address(&self) -> Result<Address, ConnectError> {
        match self {
            Self::Fixed(address) => Ok(address.clone()),
            Self::Master(sentinels) => sentinels.master().await,
        }
    }

    /// Completes once the server at `address` is no longer the right one.
    pub(super) async fn left(&self, address: &Address) {
        match self {
            Self::Fixed(_) => std::future::pending().await,
            Self::Master(sentinels) => sentinels.left(address).await,
        }
    }

    /// Asks for the master again.
    pub(super) fn doubt(&self) {
        if let Self::Master(sentinels) = self {
            sentinels.ask_again();
        }
    }
}
