//! What every request can reach.

use std::sync::Arc;

use axum::extract::FromRef;
use delayq_plugin::Store;

use crate::access::TokenBook;
use crate::config::Config;
use crate::draining::Draining;
use crate::health::Health;
use crate::limits::Limits;
use crate::meter::Meter;
use crate::space::Spaces;
use crate::stop::Stopping;

/// What every request can reach. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct App {
    pub(crate) config: Arc<Config>,
    pub(crate) spaces: Arc<Spaces>,
    /// The store of what the server keeps for itself.
    pub(crate) own: Arc<dyn Store>,
    pub(crate) tokens: Arc<TokenBook>,
    pub(crate) limits: Arc<Limits>,
    pub(crate) health: Arc<Health>,
    pub(crate) meter: Meter,
    pub(crate) stopping: Stopping,
    pub(crate) draining: Draining,
}

impl FromRef<App> for Arc<Limits> {
    fn from_ref(app: &App) -> Self {
        Arc::clone(&app.limits)
    }
}

impl FromRef<App> for Arc<Spaces> {
    fn from_ref(app: &App) -> Self {
        Arc::clone(&app.spaces)
    }
}

impl FromRef<App> for Arc<TokenBook> {
    fn from_ref(app: &App) -> Self {
        Arc::clone(&app.tokens)
    }
}
