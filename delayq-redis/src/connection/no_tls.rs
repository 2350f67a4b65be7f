//! TLS where it is left out of the build.

use delayq_core::{Error, Result};
use redis::RedisConnectionInfo;

use super::fault::Cause;
use crate::config::{Address, TlsConfig};

/// # Errors
/// Always: the configuration is refused before.
pub(super) fn client(
    _address: &Address,
    _tls: &TlsConfig,
    _settings: RedisConnectionInfo,
) -> Result<redis::Client> {
    Err(Error::Unsupported("TLS, see the feature `tls`"))
}

/// Nobody distrusts anybody.
pub(super) const DISTRUST: [Cause; 0] = [];
