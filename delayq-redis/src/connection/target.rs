//! Where a connection leads to.

#[cfg(feature = "sentinel")]
use std::sync::Arc;

use delayq_core::Result;

use super::reconnecting::Refusal;
#[cfg(feature = "sentinel")]
use super::sentinel::Sentinels;
use crate::config::Address;

/// The server of a connection.
#[derive(Clone)]
pub(super) enum Target {
    /// Always this one.
    Fixed(Address),
    /// The master by then.
    #[cfg(feature = "sentinel")]
    Master(Arc<Sentinels>),
}

impl Target {
    #[cfg_attr(
        not(feature = "sentinel"),
        expect(
            clippy::unnecessary_wraps,
            reason = "only sentinels name another server"
        )
    )]
    pub(super) fn fixed(&self) -> Option<&Address> {
        match self {
            Self::Fixed(address) => Some(address),
            #[cfg(feature = "sentinel")]
            Self::Master(_) => None,
        }
    }

    /// Whether it may be another server each time.
    pub(super) fn may_change(&self) -> bool {
        self.fixed().is_none()
    }

    #[cfg_attr(
        not(feature = "sentinel"),
        expect(clippy::unused_async, reason = "only sentinels are waited for")
    )]
    pub(super) async fn address(&self) -> Result<Address, Refusal> {
        match self {
            Self::Fixed(address) => Ok(address.clone()),
            #[cfg(feature = "sentinel")]
            Self::Master(sentinels) => sentinels.master().await,
        }
    }

    /// Completes once the server at `address` is the wrong one.
    pub(super) async fn left(&self, address: &Address) {
        match self {
            Self::Fixed(_) => {
                let _ = address;
                std::future::pending::<()>().await;
            }
            #[cfg(feature = "sentinel")]
            Self::Master(sentinels) => sentinels.left(address).await,
        }
    }

    /// There is reason to ask where the master is.
    #[cfg_attr(
        not(feature = "sentinel"),
        expect(clippy::unused_self, reason = "only sentinels are asked")
    )]
    pub(super) fn doubt(&self) {
        #[cfg(feature = "sentinel")]
        if let Self::Master(sentinels) = self {
            sentinels.ask_again();
        }
    }
}
