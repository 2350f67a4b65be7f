//! Middleware: an application's own code around every send and every run.

mod next;
mod stack;

use async_trait::async_trait;
use delayq_core::{DelayQueueJob, Result, TaskContext, TaskResult};

pub use next::Next;
pub(crate) use stack::MiddlewareStack;

/// Code around every task: when it is sent from this process, and when a worker of this process
/// runs it. Each method passes on what it gets unless it is written otherwise.
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
    /// A job on its way to the store, before it is checked: what is returned is sent. A header
    /// belongs to the request: one that changes from one send of a job to the next makes it another
    /// request, which conflicts with the first. A panic here is the sender's.
    ///
    /// A follow-up passes when its worker has returned `Ok`, within [`run`](Self::run); an
    /// occurrence of a recurring task outside of any run.
    ///
    /// # Errors
    /// The job is not sent, and its sender gets the error.
    async fn on_submit(&self, job: DelayQueueJob) -> Result<DelayQueueJob> {
        Ok(job)
    }

    /// One run of a worker, within the attempt's span. Not calling `next` leaves the worker and
    /// what is further in out; what is returned counts as the worker's result. A panic here is the
    /// worker's, and so is the time that is spent: the future is dropped when the attempt's time is
    /// up. Of a type with several workers each run passes by. For a `blocking` worker this runs on
    /// the blocking pool, too.
    ///
    /// # Errors
    /// As [`TaskWorker::invoke`](crate::TaskWorker::invoke).
    async fn run(&self, message: &[u8], cx: &TaskContext, next: Next<'_>) -> TaskResult {
        next.run(message, cx).await
    }
}
