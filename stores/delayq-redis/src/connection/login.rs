//! Login and encryption of a connection.

use std::time::Duration;

use redis::io::tcp::TcpSettings;
use redis::io::tcp::socket2::TcpKeepalive;
use redis::{ConnectionAddr, IntoConnectionInfo, ProtocolVersion, RedisConnectionInfo};

use delayq_core::Result;

use super::{fault, tls};
use crate::config::{Address, RedisConfig, Secret};

/// An idle connection is probed after the first time, then at the second interval, so that a
/// listening connection whose peer disappeared silently is noticed within about a minute.
const KEEPALIVE: (Duration, Duration) = (Duration::from_secs(15), Duration::from_secs(5));

/// The client of a server that holds data.
///
/// # Errors
/// `InvalidInput` if a TLS file cannot be used.
pub(crate) fn client(config: &RedisConfig, address: &Address) -> Result<redis::Client> {
    let login = login(config.user.as_deref(), config.password.as_ref());
    open(config, address, login.set_db(config.database.into()))
}

/// The client of a sentinel, with a login of its own and without a database.
///
/// # Errors
/// `InvalidInput` if a TLS file cannot be used.
pub(crate) fn sentinel_client(config: &RedisConfig, address: &Address) -> Result<redis::Client> {
    let login = login(
        config.sentinel_user.as_deref(),
        config.sentinel_password.as_ref(),
    );
    open(config, address, login)
}

fn open(
    config: &RedisConfig,
    address: &Address,
    settings: RedisConnectionInfo,
) -> Result<redis::Client> {
    let (host, port) = (address.host.clone(), address.port);
    let addr = match (&config.tls, address.path()) {
        (None, Some(path)) => ConnectionAddr::Unix(path.into()),
        (None, None) => ConnectionAddr::Tcp(host, port),
        (Some(tls), _) => ConnectionAddr::TcpTls {
            host,
            port,
            insecure: tls.trust_any,
            tls_params: None,
        },
    };
    let info = addr
        .into_connection_info()
        .map_err(|error| fault::invalid(&error))?;
    let info = info.set_redis_settings(settings).set_tcp_settings(tcp());
    match &config.tls {
        None => redis::Client::open(info).map_err(|error| fault::invalid(&error)),
        Some(tls) => tls::client(info, tls),
    }
}

fn login(user: Option<&str>, password: Option<&Secret>) -> RedisConnectionInfo {
    let mut settings = RedisConnectionInfo::default()
        // RESP3 reports the end of a connection when it happens, not with the next call.
        .set_protocol(ProtocolVersion::RESP3)
        .set_skip_set_lib_name();
    if let Some(user) = user {
        settings = settings.set_username(user);
    }
    if let Some(password) = password {
        settings = settings.set_password(password.reveal());
    }
    settings
}

fn tcp() -> TcpSettings {
    let probes = TcpKeepalive::new()
        .with_time(KEEPALIVE.0)
        .with_interval(KEEPALIVE.1);
    // Without TCP_NODELAY the kernel would delay small commands.
    TcpSettings::default()
        .set_nodelay(true)
        .set_keepalive(probes)
}

#[cfg(test)]
#[cfg(feature = "sentinel")]
mod tests {
    use super::*;

    #[test]
    fn a_sentinel_has_a_login_of_its_own_and_no_database() {
        let url = "redis-sentinel://user:hunter2@h/orders/3";
        let address = Address::new("h", 26_379);
        let without = RedisConfig::parse(url).unwrap();
        let login = format!("{url}?sentinel_user=watcher&sentinel_password=hunter3");
        let with = RedisConfig::parse(&login).unwrap();
        for (config, user, password) in [
            (without, None, None),
            (with, Some("watcher"), Some("hunter3")),
        ] {
            let sentinel = sentinel_client(&config, &address).unwrap();
            let settings = sentinel.get_connection_info().redis_settings().clone();
            assert_eq!((settings.username(), settings.password()), (user, password));
            assert_eq!(settings.db(), 0);
            let data = client(&config, &address).unwrap();
            let settings = data.get_connection_info().redis_settings().clone();
            assert_eq!(settings.username(), Some("user"));
            assert_eq!(settings.password(), Some("hunter2"));
            assert_eq!(settings.db(), 3);
        }
    }
}
