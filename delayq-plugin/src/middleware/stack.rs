//! All middleware of a plugin, in the order given.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use delayq_core::{DelayQueueJob, Result, TaskContext, TaskResult, TaskWorker};

use super::{Middleware, Next};

/// The middleware of a plugin or sender, outermost first; usually none.
#[derive(Clone, Default)]
pub(crate) struct MiddlewareStack(Arc<[Arc<dyn Middleware>]>);

impl MiddlewareStack {
    /// This stack with `middleware` added as the innermost.
    pub(crate) fn with(&self, middleware: impl Middleware) -> Self {
        let others = self.0.iter().map(Arc::clone);
        let inner: Arc<dyn Middleware> = Arc::new(middleware);
        Self(others.chain([inner]).collect())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Passes a job through all of them.
    pub(crate) async fn on_submit(&self, mut job: DelayQueueJob) -> Result<DelayQueueJob> {
        for middleware in &*self.0 {
            job = middleware.on_submit(job).await?;
        }
        Ok(job)
    }

    /// Wraps a worker in all of them.
    pub(crate) fn around(&self, worker: Arc<dyn TaskWorker>) -> Arc<dyn TaskWorker> {
        let stack = self.clone();
        Arc::new(Wrapped { stack, worker })
    }
}

impl fmt::Debug for MiddlewareStack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MiddlewareStack({})", self.0.len())
    }
}

/// A worker with middleware around it.
struct Wrapped {
    stack: MiddlewareStack,
    worker: Arc<dyn TaskWorker>,
}

#[async_trait]
impl TaskWorker for Wrapped {
    async fn invoke(&self, message: &str, cx: &TaskContext) -> TaskResult {
        self.invoke_bytes(message.as_bytes(), cx).await
    }

    async fn invoke_bytes(&self, message: &[u8], cx: &TaskContext) -> TaskResult {
        let next = Next::new(&self.stack.0, &*self.worker);
        next.run(message, cx).await
    }
}
