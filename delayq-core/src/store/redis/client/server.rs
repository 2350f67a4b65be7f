//! Which server, and how its connections are made.

use std::sync::Arc;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::io::tcp::socket2::TcpKeepalive;
use redis::{
    AsyncConnectionConfig, ConnectionAddr, ConnectionInfo, IntoConnectionInfo, ProtocolVersion,
    PushInfo,
};

use super::fault;
use crate::error::{Error, Result};

/// Calls that wait to be written; the queue of submits and the callers hold more back.
const WRITE_QUEUE: usize = 1_024;
/// A connection on which nothing moves is probed after the first time, then at the second, so that a listening
/// one whose peer went away without a word is noticed within a minute or so.
const KEEPALIVE: (Duration, Duration) = (Duration::from_secs(15), Duration::from_secs(5));

/// A server and the settings of its connections.
#[derive(Clone, Debug)]
pub(super) struct Server {
    client: redis::Client,
    place: Arc<str>,
    pub(super) timeout: Duration,
}

impl Server {
    /// Understands `redis://[user:password@]host[:port][/db]`, and `rediss://` for TLS.
    pub(super) fn parse(url: &str, timeout: Duration) -> Result<Self> {
        let info = info_of(url).map_err(|detail| {
            // The URL itself may hold a password.
            let form = "redis://[user:password@]host[:port][/db], or rediss:// for TLS";
            Error::InvalidInput(format!(
                "cannot use the Redis URL: {detail}; its form is {form}"
            ))
        })?;
        let is_tls = matches!(info.addr(), ConnectionAddr::TcpTls { .. });
        if is_tls {
            // Fails when the application has chosen one already, which is as good.
            let _ = rustls::crypto::ring::default_provider().install_default();
        }
        let scheme = if is_tls { "rediss" } else { "redis" };
        let addr = address(info.addr());
        let place = format!("{scheme}://{addr}/{}", info.redis_settings().db());
        let client = redis::Client::open(info).map_err(|error| fault::invalid(&error))?;
        Ok(Self {
            client,
            place: place.into(),
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

/// `HOST:PORT` as it stands in a URL: an IPv6 address has brackets there.
fn address(addr: &ConnectionAddr) -> String {
    match addr {
        ConnectionAddr::Tcp(host, port) | ConnectionAddr::TcpTls { host, port, .. }
            if host.contains(':') =>
        {
            format!("[{host}]:{port}")
        }
        _ => addr.to_string(),
    }
}

fn info_of(url: &str) -> std::result::Result<ConnectionInfo, String> {
    if !url.starts_with("redis://") && !url.starts_with("rediss://") {
        return Err("it begins with neither redis:// nor rediss://".to_owned());
    }
    let info = url
        .into_connection_info()
        .map_err(|error| error.to_string())?;
    // RESP3 tells of the end of a connection when it comes, not with the next call.
    let settings = info.redis_settings().clone();
    let settings = settings
        .set_protocol(ProtocolVersion::RESP3)
        .set_skip_set_lib_name();
    // Without TCP_NODELAY the kernel would hold small commands back.
    let tcp = info.tcp_settings().clone().set_nodelay(true);
    let tcp = tcp.set_keepalive(
        TcpKeepalive::new()
            .with_time(KEEPALIVE.0)
            .with_interval(KEEPALIVE.1),
    );
    Ok(info.set_redis_settings(settings).set_tcp_settings(tcp))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(url: &str) -> Result<Server> {
        Server::parse(url, Duration::from_secs(1))
    }

    #[test]
    fn a_server_is_named_without_its_secrets() {
        let server = parse("redis://user:hunter2@localhost:7000/3").unwrap();
        assert_eq!(&*server.place(), "redis://localhost:7000/3");
        assert_eq!(&*parse("rediss://h").unwrap().place(), "rediss://h:6379/0");
        let place = parse("redis://:hunter2@[::1]:7000").unwrap().place();
        assert_eq!(&*place, "redis://[::1]:7000/0");
    }

    #[test]
    fn an_url_that_cannot_be_used_is_refused_without_repeating_it() {
        for bad in [
            "http://h",
            "redis://",
            "redis://user:hunter2@h/x",
            "localhost:6379",
            "",
        ] {
            let message = parse(bad).unwrap_err().to_string();
            assert!(
                message.contains("redis://[user:password@]host"),
                "{message}"
            );
            assert!(!message.contains("hunter2"), "{message}");
        }
    }
}
