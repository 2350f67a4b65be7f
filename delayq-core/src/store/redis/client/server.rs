//! How connections to one server are made.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::io::tcp::TcpSettings;
use redis::io::tcp::socket2::TcpKeepalive;
use redis::{
    AsyncConnectionConfig, ConnectionAddr, IntoConnectionInfo, ProtocolVersion, PushInfo,
    RedisConnectionInfo,
};

use super::super::config::{Address, RedisConfig, Secret};
use super::{fault, tls};
use crate::error::Result;

/// Calls that wait to be written; the queue of submits and the callers hold more back.
const WRITE_QUEUE: usize = 1_024;
/// A connection on which nothing moves is probed after the first time, then at the second, so that a listening
/// one whose peer went away without a word is noticed within a minute or so.
const KEEPALIVE: (Duration, Duration) = (Duration::from_secs(15), Duration::from_secs(5));

/// A server and the settings of its connections.
#[derive(Clone)]
pub(super) struct Server {
    client: redis::Client,
    place: Arc<str>,
    pub(super) timeout: Duration,
}

impl RedisConfig {
    /// The client of a server that holds data.
    ///
    /// # Errors
    /// `InvalidInput` when a file of TLS cannot be used.
    pub(in super::super) fn client(&self, address: &Address) -> Result<redis::Client> {
        let login = login(self.user.as_deref(), self.password.as_ref());
        self.open(address, login.set_db(self.database.into()))
    }

    /// The client of a sentinel: with a login of its own, and no database.
    ///
    /// # Errors
    /// `InvalidInput` when a file of TLS cannot be used.
    #[cfg_attr(not(test), expect(dead_code, reason = "nothing follows sentinels yet"))]
    pub(in super::super) fn sentinel_client(&self, address: &Address) -> Result<redis::Client> {
        let login = login(
            self.sentinel_user.as_deref(),
            self.sentinel_password.as_ref(),
        );
        self.open(address, login)
    }

    fn open(&self, address: &Address, settings: RedisConnectionInfo) -> Result<redis::Client> {
        let (host, port) = (address.host.clone(), address.port);
        let (addr, certificates) = match &self.tls {
            None => (ConnectionAddr::Tcp(host, port), None),
            Some(tls) => {
                tls::install_provider();
                let addr = ConnectionAddr::TcpTls {
                    host,
                    port,
                    insecure: tls.trust_any,
                    tls_params: None,
                };
                (addr, tls::certificates(tls)?)
            }
        };
        let info = addr.into_connection_info();
        let info = info.map_err(|error| fault::invalid(&error))?;
        let info = info.set_redis_settings(settings).set_tcp_settings(tcp());
        let client = match certificates {
            Some(certificates) => redis::Client::build_with_tls(info, certificates),
            None => redis::Client::open(info),
        };
        client.map_err(|error| fault::invalid(&error))
    }

    /// A server that holds data, as a URL without secrets.
    fn place(&self, address: &Address) -> Arc<str> {
        let scheme = if self.tls.is_some() {
            "rediss"
        } else {
            "redis"
        };
        format!("{scheme}://{address}/{}", self.database).into()
    }
}

fn login(user: Option<&str>, password: Option<&Secret>) -> RedisConnectionInfo {
    let mut settings = RedisConnectionInfo::default()
        // RESP3 tells of the end of a connection when it comes, not with the next call.
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
    // Without TCP_NODELAY the kernel would hold small commands back.
    TcpSettings::default()
        .set_nodelay(true)
        .set_keepalive(probes)
}

impl Server {
    /// # Errors
    /// `InvalidInput` when a file of TLS cannot be used.
    pub(super) fn new(config: &RedisConfig, address: &Address, timeout: Duration) -> Result<Self> {
        Ok(Self {
            client: config.client(address)?,
            place: config.place(address),
            timeout,
        })
    }

    pub(super) fn place(&self) -> Arc<str> {
        Arc::clone(&self.place)
    }

    /// Makes a connection; `on_push` hears of messages and of its end.
    pub(super) async fn open(
        &self,
        on_push: impl Fn(PushInfo) + Send + Sync + 'static,
    ) -> redis::RedisResult<MultiplexedConnection> {
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(self.timeout))
            // Every call has a deadline of its own, which also covers the wait for a connection; the
            // client's default would drop answers that take longer than half a second.
            .set_response_timeout(None)
            .set_pipeline_buffer_size(WRITE_QUEUE)
            .set_push_sender(move |push| {
                on_push(push);
                Ok::<(), ()>(())
            });
        self.client
            .get_multiplexed_async_connection_with_config(&config)
            .await
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Server").field(&self.place).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::config::RedisServers;
    use super::*;

    #[test]
    fn a_server_is_named_without_its_secrets() {
        for (url, place) in [
            (
                "redis://user:hunter2@localhost:7000/3",
                "redis://localhost:7000/3",
            ),
            ("rediss://h", "rediss://h:6379/0"),
            ("redis://:hunter2@[::1]:7000", "redis://[::1]:7000/0"),
        ] {
            let config = RedisConfig::parse(url).unwrap();
            let RedisServers::One(address) = &config.servers else {
                panic!("{url} is one server");
            };
            let server = Server::new(&config, address, Duration::from_secs(1)).unwrap();
            assert_eq!(&*server.place(), place);
            assert_eq!(config.to_string(), place);
            assert!(!format!("{server:?} {config:?}").contains("hunter2"));
        }
    }

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
            let sentinel = config.sentinel_client(&address).unwrap();
            let settings = sentinel.get_connection_info().redis_settings().clone();
            assert_eq!((settings.username(), settings.password()), (user, password));
            assert_eq!(settings.db(), 0);
            let data = config.client(&address).unwrap();
            let settings = data.get_connection_info().redis_settings().clone();
            assert_eq!(settings.username(), Some("user"));
            assert_eq!(settings.password(), Some("hunter2"));
            assert_eq!(settings.db(), 3);
        }
    }
}
