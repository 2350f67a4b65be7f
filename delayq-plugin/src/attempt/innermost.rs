//! The innermost step in a worker's middleware.

use std::sync::Arc;

use async_trait::async_trait;
use delayq_core::{TaskContext, TaskResult, TaskWorker};

use super::follow_ups::FollowUps;
use crate::submit::TaskSubmitService;

/// A worker whose follow-ups pass the middleware when it returns, still inside everything the
/// middleware has set up around its run.
pub(crate) struct Innermost {
    pub(crate) worker: Arc<dyn TaskWorker>,
    pub(crate) name: String,
    pub(crate) tasks: TaskSubmitService,
}

#[async_trait]
impl TaskWorker for Innermost {
    async fn invoke(&self, message: &str, cx: &TaskContext) -> TaskResult {
        self.invoke_bytes(message.as_bytes(), cx).await
    }

    async fn invoke_bytes(&self, message: &[u8], cx: &TaskContext) -> TaskResult {
        self.worker.invoke_bytes(message, cx).await?;
        let follow_ups = FollowUps {
            cx,
            worker: &self.name,
            tasks: &self.tasks,
        };
        follow_ups.pass_middleware().await
    }
}
