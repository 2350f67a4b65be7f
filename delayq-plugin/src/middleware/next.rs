//! The rest of a middleware stack.

use std::fmt;
use std::sync::Arc;

use delayq_core::{TaskContext, TaskResult, TaskWorker};

use super::Middleware;

/// The continuation of a [`Middleware`]: the next one and, in the end, the worker.
#[derive(Clone, Copy)]
pub struct Next<'a> {
    rest: &'a [Arc<dyn Middleware>],
    worker: &'a dyn TaskWorker,
}

impl<'a> Next<'a> {
    pub(super) fn new(rest: &'a [Arc<dyn Middleware>], worker: &'a dyn TaskWorker) -> Self {
        Self { rest, worker }
    }

    /// Continues with this message and context.
    ///
    /// # Errors
    /// The error of the worker or of an inner middleware.
    pub async fn run(self, message: &[u8], cx: &TaskContext) -> TaskResult {
        match self.rest.split_first() {
            Some((first, rest)) => {
                let next = Self::new(rest, self.worker);
                first.run(message, cx, next).await
            }
            None => self.worker.invoke_bytes(message, cx).await,
        }
    }
}

impl fmt::Debug for Next<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Next({} more)", self.rest.len())
    }
}
