//! End of delayq together with the application.

use std::any::Any;
use std::sync::Arc;

use delayq_plugin::{DelayQueuePlugin, TaskSubmitService};
use summer::app::{App, AppBuilder};
use summer::async_trait;
use summer::error::Result;
use summer::event::{AppEventListener, AppEventSubscriber, ShutdownEvent, ShutdownPhase};
use summer::signal::shutdown_signal;

/// Keeps the application running until a signal, and ends `plugin` in the first hook after it.
pub(crate) fn with_the_application(app: &mut AppBuilder, plugin: Arc<DelayQueuePlugin>) {
    let tasks = plugin.submit_service();
    app.listen_app_dyn::<ShutdownEvent>(Arc::new(Closer { tasks }));
    app.add_scheduler(|_| Box::new(until_signal()));
    app.add_shutdown_hook(|_| Box::new(shut_down(plugin)));
}

async fn until_signal() -> Result<String> {
    shutdown_signal("delayq").await;
    Ok("delayq has received a signal".to_owned())
}

async fn shut_down(plugin: Arc<DelayQueuePlugin>) -> Result<String> {
    plugin.shutdown(plugin.grace()).await;
    Ok("delayq has ended: no worker runs any more".to_owned())
}

/// Closes the store after all hooks, as those of other plugins may still send tasks.
struct Closer {
    tasks: TaskSubmitService,
}

#[async_trait]
impl AppEventListener for Closer {
    async fn on_event(&self, event: Arc<dyn Any + Send + Sync>, _app: &App) -> Result<()> {
        let shutdown = event.downcast_ref::<ShutdownEvent>();
        if shutdown.is_some_and(|shutdown| shutdown.phase == ShutdownPhase::AfterHooks) {
            self.tasks.close().await;
        }
        Ok(())
    }
}
