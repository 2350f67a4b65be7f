//! Settings shared by all connections of a client, and the opening of connections.

use std::sync::Arc;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, PushInfo};

use delayq_core::Result;
use tokio::runtime::Handle;

use super::Setup;
use super::command::LuaScript;
use super::fault::{self, ConnectError};
use super::login;
use super::replication::Replication;
use crate::config::{Address, RedisConfig};

/// Number of calls waiting to be written; the queue of submits and the callers hold back further
/// ones.
const WRITE_QUEUE: usize = 1_024;

/// The role of a server.
#[derive(Clone, Copy, Debug)]
pub(super) enum Kind {
    /// It holds data.
    Data,
    /// It knows the master.
    Sentinel,
}

/// The settings of a client.
#[derive(Clone, Debug)]
pub(super) struct Settings {
    config: RedisConfig,
    /// Runs all connections.
    pub(super) runtime: Handle,
    place: Arc<str>,
    /// The time limit of a call, and of opening a connection.
    pub(super) timeout: Duration,
    /// Loaded on each new connection.
    pub(super) scripts: &'static [LuaScript],
    pub(super) replication: Option<Arc<Replication>>,
}

impl Settings {
    /// # Errors
    /// `InvalidInput` if a TLS file cannot be used.
    pub(super) fn new(config: &RedisConfig, runtime: &Handle, setup: &Setup) -> Result<Arc<Self>> {
        if let Some(address) = config.servers.addresses().first() {
            login::client(config, address)?;
        }
        let timeout = setup.timeout;
        let replication = || Arc::new(Replication::new(config, timeout));
        Ok(Arc::new(Self {
            config: config.clone(),
            runtime: runtime.clone(),
            place: config.to_string().into(),
            timeout,
            scripts: setup.scripts,
            replication: setup.is_replicated.then(replication),
        }))
    }

    pub(super) fn is_cluster(&self) -> bool {
        self.config.is_cluster()
    }

    /// The same for another node of a cluster, which has replicas of its own.
    pub(super) fn of_node(&self) -> Arc<Self> {
        let mut settings = self.clone();
        let replication = settings.replication.as_ref();
        settings.replication = replication.map(|own| Arc::new(own.of_another_node()));
        Arc::new(settings)
    }

    /// The address of the client's servers, as a URL without secrets.
    pub(super) fn place(&self) -> Arc<str> {
        Arc::clone(&self.place)
    }

    /// A server, as a URL without secrets.
    pub(super) fn place_of(&self, kind: Kind, address: &Address) -> Arc<str> {
        let (scheme, database) = (self.config.scheme(), self.config.database);
        match kind {
            Kind::Data => format!("{scheme}://{address}/{database}").into(),
            Kind::Sentinel => format!("{scheme}://{address}").into(),
        }
    }

    /// Connects to a server that holds data; `on_push` gets messages and the end of the connection.
    pub(super) async fn open(
        &self,
        address: &Address,
        on_push: impl Fn(PushInfo) + Send + Sync + 'static,
    ) -> Result<MultiplexedConnection, ConnectError> {
        let client = login::client(&self.config, address).map_err(ConnectError::lasting)?;
        let config = self.connection().set_push_sender(move |push| {
            on_push(push);
            Ok::<(), ()>(())
        });
        let place = self.place_of(Kind::Data, address);
        self.connect(client, config, &place).await
    }

    /// Connects to a server for occasional questions.
    pub(super) async fn open_quiet(
        &self,
        kind: Kind,
        address: &Address,
    ) -> Result<MultiplexedConnection, ConnectError> {
        let client = match kind {
            Kind::Data => login::client(&self.config, address),
            Kind::Sentinel => login::sentinel_client(&self.config, address),
        };
        let client = client.map_err(ConnectError::lasting)?;
        let place = self.place_of(kind, address);
        self.connect(client, self.connection(), &place).await
    }

    fn connection(&self) -> AsyncConnectionConfig {
        AsyncConnectionConfig::new()
            .set_connection_timeout(Some(self.timeout))
            // Every call has a deadline of its own, which includes the wait for a connection. The
            // client's default would drop answers that take longer than half a second.
            .set_response_timeout(None)
            .set_pipeline_buffer_size(WRITE_QUEUE)
    }

    async fn connect(
        &self,
        client: redis::Client,
        config: AsyncConnectionConfig,
        place: &str,
    ) -> Result<MultiplexedConnection, ConnectError> {
        let connection = client.get_multiplexed_async_connection_with_config(&config);
        connection.await.map_err(|error| {
            let mut refusal = ConnectError::of(place, &error);
            if self.config.is_secret_in(&fault::text(&error)) {
                refusal.error = fault::unspeakable(place, &error);
            }
            refusal
        })
    }
}
