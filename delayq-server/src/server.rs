//! The server: its parts, its start and its end.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;

use delayq_plugin::store::StoreOptions;
use delayq_plugin::{Namespace, Store, SystemClock, open_store};
use tokio::net::TcpListener;

use crate::access::{NewToken, Scope, TokenBook};
use crate::app::App;
use crate::config::Config;
use crate::http;
use crate::space::Spaces;

/// The namespace of what the server keeps for itself. No token gives a right on it.
const OWN: &str = "delayq-server";

/// Why the server does not start, or ended.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ServerError {
    /// A store cannot be opened or used.
    #[error("{0}")]
    Store(#[from] delayq_plugin::Error),
    /// It cannot listen.
    #[error("cannot listen on {address}: {error}")]
    Listen {
        address: SocketAddr,
        error: std::io::Error,
    },
    /// What was asked for cannot be done.
    #[error("{0}")]
    Refused(String),
    /// The listener failed.
    #[error("{0}")]
    Io(#[from] std::io::Error),
}

/// A server that is open, and may listen.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) app: App,
    own: Arc<dyn Store>,
}

impl Server {
    /// Opens the store of the server.
    pub(crate) async fn open(config: Config) -> Result<Self, ServerError> {
        let config = Arc::new(config);
        let options = StoreOptions {
            namespace: Namespace::new(OWN)?,
            ..config.store_options()
        };
        let own = open_store(&config.store, options).await?;
        let tokens = TokenBook::open(Arc::clone(&own), Arc::new(SystemClock)).await?;
        let app = App {
            spaces: Arc::new(Spaces::new(&config)),
            config,
            tokens,
        };
        Ok(Self { app, own })
    }

    /// The token that a new server gives to whoever starts it; `None` if it has tokens already.
    pub(crate) async fn first_token(&self) -> Result<Option<String>, ServerError> {
        if !self.app.tokens.all().is_empty() {
            return Ok(None);
        }
        let everything = NewToken {
            name: "first".to_owned(),
            scopes: [Scope::Admin].into(),
            namespace: "*".to_owned(),
            types: Vec::new(),
            expires_at: None,
        };
        let (_, text) = self.app.tokens.create(everything).await?;
        Ok(Some(text))
    }

    /// Closes the stores.
    pub(crate) async fn close(&self) {
        self.app.spaces.close().await;
        self.own.close().await;
    }

    /// Listens.
    pub(crate) async fn listener(&self) -> Result<TcpListener, ServerError> {
        let address = self.app.config.listen;
        let listening = TcpListener::bind(address).await;
        listening.map_err(|error| ServerError::Listen { address, error })
    }

    /// Serves until `end`, and then what is under way.
    pub(crate) async fn run(
        self,
        listener: TcpListener,
        end: impl Future<Output = ()> + Send + 'static,
    ) -> Result<(), ServerError> {
        let follow = tokio::spawn(Arc::clone(&self.app.tokens).follow());
        let app =
            http::router(self.app.clone()).into_make_service_with_connect_info::<SocketAddr>();
        // Small answers go out at once: see the figures of HTTP/2 without it in the issue.
        let listener = axum::serve::ListenerExt::tap_io(listener, |stream| {
            if let Err(error) = stream.set_nodelay(true) {
                tracing::debug!(%error, "a connection keeps Nagle's algorithm");
            }
        });
        let served = axum::serve(listener, app).with_graceful_shutdown(end).await;
        follow.abort();
        self.close().await;
        Ok(served?)
    }
}
