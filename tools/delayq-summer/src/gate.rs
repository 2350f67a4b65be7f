//! Gate that holds workers back until the application is built.

use std::any::Any;
use std::sync::Arc;

use delayq_plugin::{Middleware, Next, TaskContext, TaskError, TaskResult, async_trait, seconds};
use summer::app::{App, AppBuilder};
use summer::error::Result;
use summer::event::{AppBuiltEvent, AppEventListener, AppEventSubscriber};
use tokio::sync::watch;

/// Holds each run back until the application is built: services are injected after delayq has
/// started, and the global application is set after that. Otherwise overdue tasks would start at
/// once.
pub(crate) struct Gate {
    is_open: watch::Receiver<bool>,
}

impl Gate {
    /// A gate that `app` opens once it is built.
    pub(crate) fn of(app: &AppBuilder) -> Self {
        let (open, is_open) = watch::channel(false);
        app.listen_app_dyn::<AppBuiltEvent>(Arc::new(Opener { open }));
        Self { is_open }
    }
}

#[async_trait]
impl Middleware for Gate {
    async fn run(&self, message: &[u8], cx: &TaskContext, next: Next<'_>) -> TaskResult {
        let opened = self
            .is_open
            .clone()
            .wait_for(|is_open| *is_open)
            .await
            .is_ok();
        if !opened {
            // The application was dropped: another instance may take the task.
            return Err(TaskError::release(seconds(0)));
        }
        next.run(message, cx).await
    }
}

struct Opener {
    open: watch::Sender<bool>,
}

#[async_trait]
impl AppEventListener for Opener {
    async fn on_event(&self, _event: Arc<dyn Any + Send + Sync>, _app: &App) -> Result<()> {
        self.open.send_replace(true);
        Ok(())
    }
}
