//! TLS where it is left out of the build.

use delayq_core::{Error, Result};
use redis::ConnectionInfo;

use crate::config::TlsConfig;

/// # Errors
/// Always: the configuration is refused before.
pub(super) fn client(_: ConnectionInfo, _: &TlsConfig) -> Result<redis::Client> {
    Err(Error::Unsupported("TLS, see the feature `tls`"))
}
