//! The plugin, as added to an application.

use std::any::type_name;
use std::fmt;
use std::sync::Arc;

use delayq_plugin::DelayQueuePluginBuilder;
use summer::app::AppBuilder;
use summer::async_trait;
use summer::event::{EventSubscriber, PluginsBuiltEvent};
use summer::plugin::{ComponentRegistry, Plugin};

use crate::start::{Start, Step, Stepped};

/// delayq as a plugin of summer: `App::new().add_plugin(DelayqPlugin::default())`.
///
/// It starts when all plugins are built, whatever their order. It uses the section `[delayq]` of
/// summer's configuration, whose keys are those of [`Config`](delayq_plugin::Config), and all
/// workers registered by `#[task_worker]`. It adds two components:
/// [`TaskSubmitService`](delayq_plugin::TaskSubmitService), which sends tasks, and
/// `Arc<`[`DelayQueuePlugin`](delayq_plugin::DelayQueuePlugin)`>`, for health and events. No worker
/// runs before the application is built, so that [`App::global`](summer::app::App::global) is
/// complete in each of them.
///
/// Like a web server it keeps [`run`](AppBuilder::run) going until Ctrl-C or SIGTERM. Its shutdown
/// hook runs first: claims stop, running workers have the `grace` of the section (20 s by default),
/// and the rest is given back. Only then do the hooks of other plugins close resources that workers
/// use. The store is closed after the last hook. [`build`](AppBuilder::build) runs no hooks: in
/// that case end the plugin with [`shutdown`](delayq_plugin::DelayQueuePlugin::shutdown).
///
/// # Errors
/// A mistake in the section, a missing component or a store that cannot be opened is an error of
/// [`build`](AppBuilder::build), and names the key or the type. [`run`](AppBuilder::run) has no
/// result: it logs the error at `error` and returns.
#[derive(Clone, Default)]
#[must_use = "a plugin does nothing until it is added"]
pub struct DelayqPlugin {
    steps: Vec<Step>,
}

impl DelayqPlugin {
    /// Passes summer's component `T` to the workers, which take it as delayq's
    /// [`Component<T>`](delayq_plugin::Component). It must exist when all plugins are built, so it
    /// has to be added by a plugin, `#[component]` or `add_component`.
    ///
    /// Services of `#[derive(Service)]` are created later; see [`with`](Self::with).
    pub fn component<T: Clone + Send + Sync + 'static>(self) -> Self {
        self.with(|builder, app| {
            let missing = || {
                let name = type_name::<T>();
                format!("no component {name} in the application for the workers of delayq: add one")
            };
            let component = app.get_component::<T>().ok_or_else(missing)?;
            Ok(builder.component(component))
        })
    }

    /// Passes the builder of delayq's plugin through `step` before it starts: for workers added by
    /// hand, pools, listeners, middleware, or components built from several others. The builder
    /// already has the configuration. Several steps run in the order given.
    ///
    /// Pass a service of `#[derive(Service)]` to workers as a
    /// [`LazyComponent`](summer::plugin::LazyComponent), which finds it when the worker runs:
    ///
    /// ```
    /// use delayq_plugin::{Component, TaskError, TaskResult, task_worker};
    /// use delayq_summer::DelayqPlugin;
    /// use summer::plugin::{LazyComponent, Service};
    ///
    /// #[derive(Clone, Service)]
    /// struct Orders {}
    ///
    /// #[task_worker(type = "order.cancel")]
    /// async fn cancel(order: &str, orders: Component<LazyComponent<Orders>>) -> TaskResult {
    ///     let _orders: Orders = orders.get().map_err(TaskError::retry)?;
    ///     println!("order {order} is cancelled");
    ///     Ok(())
    /// }
    ///
    /// let plugin = DelayqPlugin::default()
    ///     .with(|builder, _| Ok(builder.component(LazyComponent::<Orders>::new())));
    /// # let _ = plugin;
    /// ```
    pub fn with<F>(mut self, step: F) -> Self
    where
        F: Fn(DelayQueuePluginBuilder, &AppBuilder) -> Stepped + Send + Sync + 'static,
    {
        self.steps.push(Arc::new(step));
        self
    }
}

#[async_trait]
impl Plugin for DelayqPlugin {
    async fn build(&self, app: &mut AppBuilder) {
        let start = Start::new(self.steps.clone());
        app.listen_dyn::<PluginsBuiltEvent>(Arc::new(start));
    }

    fn name(&self) -> &'static str {
        "delayq_summer::DelayqPlugin"
    }
}

impl fmt::Debug for DelayqPlugin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DelayqPlugin({} steps)", self.steps.len())
    }
}
