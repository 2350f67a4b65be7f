//! End of a task whose call was answered before it ended.

use std::sync::Arc;
use std::time::Duration;

use delayq_core::store::{AttemptEnd, Bucket, ExtendOutcome, SettleOutcome, Settlement};
use delayq_core::task::Lock;
use delayq_core::{Reply, Result, RetryPolicy, Store, TaskContext, TaskError};

/// Component of the workers of an endpoint whose builder has a URL or a store, which is that of the
/// server: lets a task be settled after its worker has returned.
///
/// ```no_run
/// use delayq_endpoint::Settlements;
/// use delayq_plugin::{Component, TaskContext, TaskResult, task_worker};
///
/// #[task_worker(type = "payment.book")]
/// async fn book(order: &str, cx: &TaskContext, open: Component<Settlements>) -> TaskResult {
///     println!("the bank is asked about {order}");
///     let settlement = open.later(cx)?;
///     tokio::spawn(async move {
///         // .. when the bank has answered
///         settlement.done().await
///     });
///     Ok(())
/// }
/// ```
#[derive(Clone, Debug)]
pub struct Settlements {
    store: Arc<dyn Store>,
}

impl Settlements {
    pub(crate) fn on(store: &Arc<dyn Store>) -> Self {
        Self {
            store: Arc::clone(store),
        }
    }

    /// Leaves the end of this attempt to what is returned: the server is answered so when the
    /// worker returns `Ok`, and holds the lock for the `settle_within` of its target. A worker that
    /// fails after this ends the attempt itself.
    ///
    /// The task no longer counts here: neither in `concurrency`, nor for a shutdown.
    ///
    /// # Errors
    /// `InvalidInput` for the second time in one attempt, of one or of several workers.
    pub fn later(&self, cx: &TaskContext) -> Result<LaterSettlement> {
        cx.settle_later()?;
        Ok(LaterSettlement {
            store: Arc::clone(&self.store),
            bucket: Bucket::whole(cx.task_type().clone()),
            lock: Lock {
                id: cx.id().clone(),
                fence: cx.fence(),
            },
            tried: cx.tried(),
            retry: cx.retry(),
        })
    }
}

/// The right to end one attempt. Dropped unused, the server has the task called again after
/// `settle_within`, which costs an attempt.
///
/// Each call may be repeated, so after an error that
/// [is transient](delayq_core::Error::is_transient). An attempt has one end, the first: a repeat of
/// it answers `Settled`, another one changes nothing and answers `LockLost`, as does what comes
/// after `settle_within`.
#[derive(Clone, Debug)]
pub struct LaterSettlement {
    store: Arc<dyn Store>,
    bucket: Bucket,
    lock: Lock,
    tried: u32,
    retry: RetryPolicy,
}

impl LaterSettlement {
    /// The task is done.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn done(&self) -> Result<SettleOutcome> {
        self.end(AttemptEnd::Done).await
    }

    /// The task is done, and this is the reply to whoever waits for it.
    ///
    /// # Errors
    /// `InvalidInput` for a reply that [cannot be kept](Reply::check); those of the store.
    pub async fn done_with(&self, reply: Reply) -> Result<SettleOutcome> {
        reply.check()?;
        // Before the end: whoever sees the task done finds its reply.
        let task_type = self.bucket.task_type();
        self.store.keep_reply(task_type, &self.lock, &reply).await?;
        self.done().await
    }

    /// The attempt failed, or is given back: what becomes of the task is as if the worker had
    /// returned this, by its retry policy.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn fail(&self, error: TaskError) -> Result<SettleOutcome> {
        let succeeded = Vec::new();
        let wait = self.retry.wait_after(self.tried);
        let (wait, error) = match error {
            TaskError::Release(after) => {
                return self.end(AttemptEnd::Release { after, succeeded }).await;
            }
            TaskError::Dead(error) => (None, error),
            TaskError::RetryAfter(after, error) => (wait.map(|_| after), error),
            TaskError::Retry(error) => (wait, error),
            // TaskError may grow: an outcome of a newer core is retried.
            other => (wait, format!("{other:?}")),
        };
        let end = match wait {
            Some(after) => AttemptEnd::Retry {
                after,
                error,
                succeeded,
            },
            None => AttemptEnd::Dead { error, succeeded },
        };
        self.end(end).await
    }

    /// Makes the lock last so long from now, which counts when the server that called has gone; the
    /// outcome says whether somebody asked to cancel the task.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn extend(&self, lock_for: Duration) -> Result<ExtendOutcome> {
        let locks = vec![self.lock.clone()];
        let outcomes = self.store.extend(&self.bucket, locks, lock_for).await?;
        // One each, by the contract of the store.
        Ok(outcomes.first().copied().unwrap_or(ExtendOutcome::LockLost))
    }

    async fn end(&self, end: AttemptEnd) -> Result<SettleOutcome> {
        let settlement = Settlement::new(self.lock.clone(), end);
        let outcomes = self.store.settle(&self.bucket, vec![settlement]).await?;
        Ok(outcomes.first().copied().unwrap_or(SettleOutcome::LockLost))
    }
}
