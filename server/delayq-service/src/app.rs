//! State shared by all requests.

use std::ops::Deref;
use std::sync::Arc;

use delayq_plugin::store::StoreOptions;
use delayq_plugin::{Namespace, Result, Store, SystemClock, open_store};

use crate::access::TokenBook;
use crate::body::BodyRoom;
use crate::config::{Config, OWN_NAMESPACE};
use crate::draining::Draining;
use crate::health::Health;
use crate::limits::Limits;
use crate::meter::Meter;
use crate::place::PlaceBook;
use crate::space::Spaces;
use crate::stop::Stopping;

/// State shared by all requests. A clone costs one count, as a request makes several.
#[derive(Clone, Debug)]
pub struct App(Arc<Shared>);

impl Deref for App {
    type Target = Shared;

    fn deref(&self) -> &Shared {
        &self.0
    }
}

/// What all requests share.
#[derive(Clone, Debug)]
pub struct Shared {
    pub config: Arc<Config>,
    pub spaces: Arc<Spaces>,
    /// The store of the server's own data, such as tokens.
    pub own: Arc<dyn Store>,
    pub tokens: Arc<TokenBook>,
    pub limits: Arc<Limits>,
    /// The room for the bodies of all requests.
    pub bodies: BodyRoom,
    pub health: Arc<Health>,
    pub meter: Meter,
    pub stopping: Stopping,
    pub draining: Draining,
}

impl App {
    /// Opens the server's own store and everything kept there.
    pub async fn open(config: Config, draining: Draining) -> Result<Self> {
        let stopping = Stopping::default();
        let meter = Meter::install();
        let config = Arc::new(config);
        let options = StoreOptions {
            namespace: Namespace::new(OWN_NAMESPACE)?,
            ..config.store_options()
        };
        let own = open_store(&config.store, options).await?;
        let tokens = TokenBook::open(Arc::clone(&own), Arc::new(SystemClock)).await?;
        let places = PlaceBook::open(Arc::clone(&own)).await?;
        let spaces = Arc::new(Spaces::new(&config, places, stopping.clone()));
        let health = Health::new(
            Arc::clone(&spaces),
            Arc::clone(&own),
            Arc::clone(&tokens),
            stopping.clone(),
        );
        Ok(Self(Arc::new(Shared {
            spaces,
            limits: Arc::new(Limits::new(&config)),
            bodies: BodyRoom::new(config.connections.max_body_bytes),
            config,
            own,
            tokens,
            health: Arc::new(health),
            meter,
            stopping,
            draining,
        })))
    }

    /// The same server with another configuration.
    #[must_use]
    pub fn configured(&self, config: Config) -> Self {
        let config = Arc::new(config);
        Self(Arc::new(Shared {
            config,
            ..Shared::clone(self)
        }))
    }

    /// All metrics as text; `None` if the process has another recorder.
    pub fn metrics(&self) -> Option<String> {
        self.tokens.measure();
        self.meter.render()
    }

    /// Closes all stores.
    pub async fn close(&self) {
        self.spaces.close().await;
        self.own.close().await;
    }
}
