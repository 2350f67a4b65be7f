//! What every request can reach.

use std::sync::Arc;

use axum::extract::FromRef;

use crate::access::TokenBook;
use crate::config::Config;
use crate::space::Spaces;

/// What every request can reach. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct App {
    pub(crate) config: Arc<Config>,
    pub(crate) spaces: Arc<Spaces>,
    pub(crate) tokens: Arc<TokenBook>,
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
