//! Replaces TLS in a build without it.

use delayq_core::{Error, Result};
use redis::ConnectionInfo;

use crate::config::TlsConfig;

/// # Errors
/// Always: such a configuration is refused earlier.
pub(super) fn client(_: ConnectionInfo, _: &TlsConfig) -> Result<redis::Client> {
    Err(Error::Unsupported("TLS, see the feature `tls`"))
}
