//! The door on a real listener, as clients reach it.

use std::sync::Arc;

use delayq_core::store::StoreOptions;
use delayq_plugin::{Namespace, Store};
use tokio::net::TcpListener;
use tokio::sync::oneshot;

use crate::access::{NewToken, Scope};
use crate::config::{Config, NamespaceConfig};
use crate::server::Server;

mod contract;
mod limits;
mod moves;
mod rights;
mod tls;
mod worker;

/// A server that listens. It ends when this is dropped.
pub(super) struct Site {
    pub(super) address: String,
    /// A token for everything.
    pub(super) token: String,
    _end: oneshot::Sender<()>,
}

impl Site {
    /// A server with an open store as a namespace.
    pub(super) async fn over(namespace: &Namespace, store: Arc<dyn Store>) -> Self {
        let name = namespace.to_string();
        let config = Config {
            listen: ([127, 0, 0, 1], 0).into(),
            store: "memory:".to_owned(),
            durability: "memory".to_owned(),
            namespaces: [(name, NamespaceConfig::default())].into(),
            max_message_bytes: delayq_core::job::MAX_MESSAGE_BYTES,
            ..Config::default()
        };
        let server = Server::open(config).await.unwrap();
        server.app.spaces.offer(namespace.clone(), store).await;
        Self::of(server).await
    }

    async fn of(server: Server) -> Self {
        let everything = NewToken {
            name: "test".to_owned(),
            scopes: [Scope::Admin].into(),
            namespace: "*".to_owned(),
            types: Vec::new(),
            expires_at: None,
            rate: None,
            max_message_bytes: None,
            max_pending: None,
        };
        let (_, token) = server.app.tokens.create(everything).await.unwrap();
        let listener: TcpListener = server.listener().await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let (end, ended) = oneshot::channel::<()>();
        let listeners = crate::server::Listeners {
            http: Some(listener),
            ..Default::default()
        };
        tokio::spawn(server.run(listeners, async {
            ended.await.ok();
        }));
        Self {
            address,
            token,
            _end: end,
        }
    }

    /// The URL of a store.
    pub(super) fn url(&self, namespace: &Namespace) -> String {
        format!("delayq://{}@{}/{namespace}", self.token, self.address)
    }
}

/// The options of a remote store.
pub(super) fn remote_options(options: &StoreOptions) -> StoreOptions {
    StoreOptions {
        durability: delayq_core::store::Durability::Memory,
        ..options.clone()
    }
}
