//! Connections: accepts them, limits their number, encrypts them if configured, and closes them in
//! order.

mod activity;
mod connection;
mod handshake_log;
mod loopback;
mod refusal;
mod tls;
mod written;

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use delayq_service::body::BodyRoom;
use delayq_service::config::{Config, ConnectionsConfig};
use delayq_service::listener::after;
use delayq_service::proxies::TrustedProxies;
use delayq_service::server_metric::CONNECTIONS_REFUSED;
use delayq_service::stop::Stopping;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::warn;

use self::connection::Connection;
pub(crate) use self::loopback::loopback_connector;
pub(crate) use self::tls::{Tls, TlsError};

/// State shared by all connections of one listener.
#[derive(Clone, Debug)]
pub(crate) struct Door {
    /// The name of the listener in metrics.
    pub(crate) name: &'static str,
    pub(crate) router: Router,
    pub(crate) tls: Option<Arc<Tls>>,
    pub(crate) bounds: ConnectionsConfig,
    /// The room for the bodies of all requests.
    pub(crate) bodies: BodyRoom,
    pub(crate) proxies: TrustedProxies,
    pub(crate) stopping: Stopping,
    /// How long running requests may take once the server stops.
    pub(crate) grace: Duration,
    /// Closes connections that are open after the grace time.
    pub(crate) cut: CancellationToken,
}

impl Door {
    /// A door for `router`, with the limits of the configuration.
    pub(crate) fn new(name: &'static str, router: Router, config: &Config) -> Self {
        Self {
            name,
            router,
            tls: None,
            bounds: config.connections.clone(),
            bodies: BodyRoom::new(config.connections.max_body_bytes),
            // Cannot fail: the configuration was checked.
            proxies: TrustedProxies::new(&config.connections.trusted_proxies).unwrap_or_default(),
            stopping: Stopping::default(),
            grace: config.stop.grace(),
            cut: CancellationToken::new(),
        }
    }

    /// Serves until the server stops, then until every connection has ended or the grace time is
    /// over.
    pub(crate) async fn serve(self, listener: TcpListener) {
        let door = Arc::new(self);
        // From 0 on, so that the first refusal shows in `increase`.
        metrics::counter!(CONNECTIONS_REFUSED, "listener" => door.name).increment(0);
        let connections = TaskTracker::new();
        let places = Arc::new(Semaphore::new(door.bounds.max));
        loop {
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                () = door.stopping.ended() => break,
            };
            let (stream, peer) = match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    after(&error).await;
                    continue;
                }
            };
            let Ok(place) = Arc::clone(&places).try_acquire_owned() else {
                door.refuse(&stream);
                continue;
            };
            let connection = Connection::new(Arc::clone(&door), peer, place);
            connections.spawn(connection.run(stream));
        }
        drop(listener);
        connections.close();
        if tokio::time::timeout(door.grace, connections.wait())
            .await
            .is_err()
        {
            let open = connections.len();
            warn!(
                open,
                listener = door.name,
                "the grace time is over; open connections are closed"
            );
            door.cut.cancel();
            connections.wait().await;
        }
    }

    /// Sends a refusal, as far as this is possible without waiting.
    fn refuse(&self, stream: &TcpStream) {
        metrics::counter!(CONNECTIONS_REFUSED, "listener" => self.name).increment(1);
        if self.tls.is_none() {
            refusal::say(stream);
        }
    }
}

#[cfg(test)]
mod tests;
