//! Middleware: application code around every send and every run.

mod next;
mod stack;

use async_trait::async_trait;
use delayq_core::{DelayQueueJob, Result, TaskContext, TaskResult};

pub use next::Next;
pub(crate) use stack::MiddlewareStack;

/// Code around every task: when it is sent from this process, and when a worker of this process
/// runs it. By default each method passes its input on unchanged.
///
/// Registered with [`middleware`](crate::DelayQueuePluginBuilder::middleware), or on a sender with
/// [`TaskSubmitService::with_middleware`](crate::TaskSubmitService::with_middleware). The first one
/// registered is the outermost: it sees a job first, and the result of a run last.
///
/// ```
/// use delayq_plugin::{
///     DelayQueuePlugin, Middleware, Next, TaskContext, TaskResult, async_trait,
/// };
///
/// struct Timing;
///
/// #[async_trait]
/// impl Middleware for Timing {
///     async fn run(&self, message: &[u8], cx: &TaskContext, next: Next<'_>) -> TaskResult {
///         let start = std::time::Instant::now();
///         let result = next.run(message, cx).await;
///         println!("{} {}: {:?}", cx.task_type(), cx.id(), start.elapsed());
///         result
///     }
/// }
///
/// let builder = DelayQueuePlugin::builder().middleware(Timing);
/// ```
#[async_trait]
pub trait Middleware: Send + Sync + 'static {
    /// Gets a job on its way to the store, before it is checked, and returns the job to send.
    /// Headers are part of the job's identity: a header that changes from one send to the next
    /// makes it a different job, which conflicts with the first. A panic here reaches the sender.
    ///
    /// A follow-up passes after its worker has returned `Ok`, within [`run`](Self::run). An
    /// occurrence of a recurring task passes outside any run.
    ///
    /// # Errors
    /// The job is not sent, and its sender gets the error.
    async fn on_submit(&self, job: DelayQueueJob) -> Result<DelayQueueJob> {
        Ok(job)
    }

    /// Wraps one run of a worker, within the attempt's span. Without a call to `next`, the worker
    /// and the inner middleware do not run. The returned value counts as the worker's result. A
    /// panic here counts as the worker's, and so does the time spent: the future is dropped when
    /// the attempt's time is up. If a type has several workers, each run is wrapped. For a
    /// `blocking` worker this also runs on the blocking pool.
    ///
    /// # Errors
    /// As [`TaskWorker::invoke`](crate::TaskWorker::invoke).
    async fn run(&self, message: &[u8], cx: &TaskContext, next: Next<'_>) -> TaskResult {
        next.run(message, cx).await
    }
}
