//! Start of delayq, once all plugins of the application are built.

use std::any::Any;
use std::error::Error;
use std::sync::Arc;

use delayq_plugin::{DelayQueuePlugin, DelayQueuePluginBuilder};
use summer::app::AppBuilder;
use summer::async_trait;
use summer::error::Result;
use summer::event::BuilderEventListener;
use summer::plugin::MutableComponentRegistry;

use crate::gate::Gate;
use crate::{section, shutdown};

/// The result of a step.
pub(crate) type Stepped =
    std::result::Result<DelayQueuePluginBuilder, Box<dyn Error + Send + Sync>>;

/// An application's own step between configuration and start.
pub(crate) type Step = Arc<dyn Fn(DelayQueuePluginBuilder, &AppBuilder) -> Stepped + Send + Sync>;

/// Starts delayq when all plugins are built: their components exist by then, and a shutdown hook
/// added now runs before theirs.
pub(crate) struct Start {
    steps: Vec<Step>,
}

impl Start {
    pub(crate) fn new(steps: Vec<Step>) -> Self {
        Self { steps }
    }

    fn builder(&self, app: &AppBuilder) -> Result<DelayQueuePluginBuilder> {
        let mut builder = DelayQueuePlugin::builder()
            .config(section::config(app)?)
            .middleware(Gate::of(app));
        for step in &self.steps {
            builder = step(builder, app).map_err(anyhow::Error::from_boxed)?;
        }
        Ok(builder)
    }
}

#[async_trait]
impl BuilderEventListener for Start {
    async fn on_event(
        &self,
        _event: Arc<dyn Any + Send + Sync>,
        app: &mut AppBuilder,
    ) -> Result<()> {
        let started = self.builder(app)?.start().await;
        let plugin = Arc::new(started.map_err(anyhow::Error::new)?);
        app.add_component(plugin.submit_service());
        app.add_component(Arc::clone(&plugin));
        shutdown::with_the_application(app, plugin);
        Ok(())
    }
}
