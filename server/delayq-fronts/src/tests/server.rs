//! A server without doors, for tests.

use delayq_service::access::Scope;
use delayq_service::app::App;
use delayq_service::config::Config;
use delayq_service::draining::Draining;
use delayq_service::testing;

/// What all doors of a server share.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) app: App,
}

impl Server {
    /// Opens the store of the server.
    pub(crate) async fn open(config: Config) -> delayq_plugin::Result<Self> {
        let app = App::open(config, Draining::default()).await?;
        Ok(Self { app })
    }

    /// Closes the stores.
    pub(crate) async fn close(&self) {
        self.app.close().await;
    }

    /// A server in memory, with a namespace beside the default one.
    pub(crate) async fn in_memory() -> Self {
        Self::open(testing::in_memory()).await.unwrap()
    }

    /// A new token of `name`.
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
