//! The server: its parts, its start and its end.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;

use futures_util::future::OptionFuture;
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use crate::door::{Door, Tls, TlsError};
use crate::{grpc, http, panel};
use delayq_fronts::{Fronts, ListenError, Listeners as FrontListeners};
use delayq_service::access::{NewToken, Scope};
use delayq_service::app::App;
use delayq_service::config::Config;
use delayq_service::draining::Draining;
use delayq_service::listener::listen;
use delayq_service::requests::counted;
#[cfg(test)]
use delayq_service::testing;

/// The reason why the server does not start, or why it ended.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ServerError {
    /// A store cannot be opened or used.
    #[error("{0}")]
    Store(#[from] delayq_plugin::Error),
    /// An address cannot be listened on.
    #[error("cannot listen on {address}: {error}{}", advice(error))]
    Listen {
        address: SocketAddr,
        error: std::io::Error,
    },
    /// A front cannot listen.
    #[error("{0}")]
    Front(ListenError),
    /// The TLS files cannot be used.
    #[error("{0}")]
    Tls(#[from] TlsError),
    /// The request cannot be fulfilled.
    #[error("{0}")]
    Refused(String),
    /// A listener failed.
    #[error("{0}")]
    Io(#[from] std::io::Error),
}

impl From<ListenError> for ServerError {
    fn from(error: ListenError) -> Self {
        match error {
            ListenError::Address { address, error } => Self::Listen { address, error },
            other => Self::Front(other),
        }
    }
}

/// Advice for an error.
fn advice(error: &std::io::Error) -> &'static str {
    match error.kind() {
        std::io::ErrorKind::AddrInUse => {
            ": another program, or another delayq-server, has this port. End it, or give another \
             port with --listen, or with -p where it is beanstalkd's"
        }
        std::io::ErrorKind::PermissionDenied => ": take a port above 1023",
        std::io::ErrorKind::AddrNotAvailable => ": this machine does not have the address",
        _ => "",
    }
}

/// An open server, ready to listen.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) app: App,
    pub(crate) tls: Option<Arc<Tls>>,
    fronts: Fronts,
}

/// The listeners of the server.
#[derive(Debug, Default)]
pub(crate) struct Listeners {
    pub(crate) http: Option<TcpListener>,
    pub(crate) admin: Option<TcpListener>,
    pub(crate) fronts: FrontListeners,
}

/// The rights of a first token.
fn everything() -> NewToken {
    NewToken {
        name: "first".to_owned(),
        scopes: [Scope::Admin].into(),
        namespace: "*".to_owned(),
        types: Vec::new(),
        expires_at: None,
        rate: None,
        max_message_bytes: None,
        max_pending: None,
    }
}

impl Server {
    /// Opens the server's own store.
    pub(crate) async fn open(config: Config) -> Result<Self, ServerError> {
        let draining = if config.beanstalk.is_offered() {
            Draining::follow()?
        } else {
            Draining::default()
        };
        let tls = Tls::open(&config.tls)?;
        let app = App::open(config, draining).await?;
        let fronts = Fronts::new(app.clone());
        Ok(Self { app, tls, fronts })
    }

    /// The first token of a new server; `None` if the server already has tokens.
    pub(crate) async fn first_token(&self) -> Result<Option<String>, ServerError> {
        if !self.app.tokens.all().is_empty() {
            return Ok(None);
        }
        let (_, text) = self.app.tokens.create(everything()).await?;
        Ok(Some(text))
    }

    /// Makes a token the first one of a new server.
    pub(crate) async fn take_first_token(&self, text: &str) -> Result<(), ServerError> {
        self.app.tokens.create_given(everything(), text).await?;
        Ok(())
    }

    /// Makes the token of the configuration the first one of a new server. Returns true if it is a
    /// token now, and this server had none.
    pub(crate) async fn take_given_token(&self) -> Result<bool, ServerError> {
        let tokens = &self.app.tokens;
        // Then its file may be gone.
        if !tokens.all().is_empty() {
            return Ok(false);
        }
        let given = self.app.config.given_token();
        let Some(text) = given.map_err(|error| ServerError::Refused(error.to_string()))? else {
            return Ok(false);
        };
        tokens.create_given(everything(), &text).await?;
        Ok(true)
    }

    /// The name of the server's own store, without secrets.
    pub(crate) fn store_name(&self) -> String {
        self.app.own.name()
    }

    /// Closes all stores.
    pub(crate) async fn close(&self) {
        self.app.close().await;
    }

    /// Opens the listener of the API.
    pub(crate) async fn listener(&self) -> Result<TcpListener, ServerError> {
        let address = self.app.config.listen;
        let listening = listen(address).await;
        listening.map_err(|error| ServerError::Listen { address, error })
    }

    /// Opens the listener of the web page, if configured.
    pub(crate) async fn admin_listener(&self) -> Result<Option<TcpListener>, ServerError> {
        let Some(address) = self.app.config.admin.listen else {
            return Ok(None);
        };
        let listening = listen(address).await;
        let listening = listening.map_err(|error| ServerError::Listen { address, error })?;
        Ok(Some(listening))
    }

    /// Serves until `end`, then finishes what is under way.
    pub(crate) async fn run(
        self,
        listeners: Listeners,
        end: impl Future<Output = ()> + Send + 'static,
    ) -> Result<(), ServerError> {
        let Listeners {
            http: listener,
            admin,
            fronts,
        } = listeners;
        let mut followers = JoinSet::new();
        followers.spawn(Arc::clone(&self.app.tokens).follow());
        followers.spawn(Arc::clone(&self.app.spaces).follow());
        followers.spawn(Arc::clone(&self.app.spaces).run());
        let discovery = &self.app.spaces.discovery;
        followers.spawn(Arc::clone(discovery).run());
        let announced = discovery.announce();
        followers.spawn(self.app.meter.follow());
        if let Some(tls) = &self.tls {
            followers.spawn(Arc::clone(tls).follow());
        }
        let stopping = self.app.stopping.clone();
        let ready_grace = self.app.config.stop.ready_grace();
        let stop = tokio::spawn(async move {
            end.await;
            tracing::info!("the server is stopping");
            stopping.leave();
            if let Some(announced) = announced {
                announced.deregister().await;
            }
            tokio::time::sleep(ready_grace).await;
            stopping.end();
        });
        let grpc = counted(&self.app, grpc::router(self.app.clone()));
        let routes = http::router(self.app.clone()).merge(grpc);
        let door = listener.map(|listener| self.door("http", routes).serve(listener));
        let admin = admin.map(|listener| {
            let pages = panel::router(self.app.clone(), self.tls.is_some());
            self.door("admin", pages).serve(listener)
        });
        let serve = |name, routes, listener| self.door(name, routes).serve(listener);
        let fronts = self.fronts.serve(fronts, serve);
        tokio::join!(OptionFuture::from(door), OptionFuture::from(admin), fronts);
        stop.abort();
        followers.shutdown().await;
        self.close().await;
        Ok(())
    }

    /// A door for a router, with the limits of the configuration.
    pub(crate) fn door(&self, name: &'static str, router: axum::Router) -> Door {
        Door {
            tls: self.tls.clone(),
            bodies: self.app.bodies.clone(),
            stopping: self.app.stopping.clone(),
            ..Door::new(name, router, &self.app.config)
        }
    }

    /// A server in memory, with one namespace in addition to the default one.
    #[cfg(test)]
    pub(crate) async fn in_memory() -> Self {
        Self::open(testing::in_memory()).await.unwrap()
    }

    /// An expired token with all rights.
    #[cfg(test)]
    pub(crate) async fn expired_token(&self) -> String {
        let new = NewToken {
            name: "expired".to_owned(),
            scopes: [Scope::Admin].into(),
            namespace: "*".to_owned(),
            types: Vec::new(),
            expires_at: Some(delayq_plugin::Timestamp::from_millis(1)),
            rate: None,
            max_message_bytes: None,
            max_pending: None,
        };
        self.app.tokens.create(new).await.unwrap().1
    }

    /// Creates a token named `name`.
    #[cfg(test)]
    pub(crate) async fn new_token(
        &self,
        name: &str,
        scopes: &[Scope],
        namespace: &str,
        types: &[&str],
    ) -> String {
        testing::new_token(&self.app, name, scopes, namespace, types).await
    }
}
