//! Calls that are made by `.await`, or in a transaction of the application.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use async_trait::async_trait;
use delayq_core::job::check_delay;
use delayq_core::store::{CancelOutcome, ChangeOutcome};
use delayq_core::{DelayQueueJob, Error, Result, SqlTransaction, TaskId, TaskType, When};
use delayq_transaction::DynTransaction;
use tracing::debug;

use super::TaskSubmitService;
use super::new_message::NewMessage;
use super::sent;
use crate::receipt::Receipt;

/// A call of a [`TaskSubmitService`] that has not been made: `.await` makes it, and
/// [`within`](Self::within) makes it in a transaction of the application instead.
#[must_use = "nothing happens before .await or .within(&mut tx)"]
pub struct TaskCall<'a, T> {
    state: CallState<'a, T>,
}

enum CallState<'a, T> {
    New {
        service: &'a TaskSubmitService,
        /// `None` for a moment: it becomes the call.
        operation: Option<Box<dyn Operation<Answer = T> + 'a>>,
    },
    Made(Pin<Box<dyn Future<Output = T> + Send + 'a>>),
}

/// What a call does.
#[async_trait]
pub(super) trait Operation: Send {
    type Answer;

    async fn make(self: Box<Self>, service: &TaskSubmitService) -> Self::Answer;

    async fn make_within(
        self: Box<Self>,
        service: &TaskSubmitService,
        tx: &mut dyn DynTransaction,
    ) -> Self::Answer;
}

/// The answer of a call, which may be an error.
pub trait CallAnswer {
    /// The answer of a call that failed as a whole.
    #[doc(hidden)]
    fn failed(error: Error) -> Self;
}

impl<T> CallAnswer for Result<T> {
    fn failed(error: Error) -> Self {
        Err(error)
    }
}

impl<T> CallAnswer for Vec<Result<T>> {
    fn failed(error: Error) -> Self {
        vec![Err(error)]
    }
}

impl<'a, T: CallAnswer + 'a> TaskCall<'a, T> {
    pub(super) fn new(
        service: &'a TaskSubmitService,
        operation: impl Operation<Answer = T> + 'a,
    ) -> Self {
        let operation: Box<dyn Operation<Answer = T> + 'a> = Box::new(operation);
        let operation = Some(operation);
        Self {
            state: CallState::New { service, operation },
        }
    }

    /// Makes the call in a transaction of the application's own database client, as a part of it:
    /// nothing has happened unless the application commits, and others see nothing before.
    ///
    /// The store must be in the same database ([guide][guide]). The job passes the middleware and
    /// the checks as without a transaction. A delay counts from this call. Whether the transaction
    /// is committed is known to the database alone: there is no event of what was sent or cancelled
    /// in it, and the metrics count only what was refused.
    ///
    /// A refusal that concerns the task, such as [`Error::Conflict`], leaves the transaction as it
    /// was, and it may go on.
    ///
    /// [guide]: https://github.com/delayq/delayq/blob/main/docs/guide/transaction.md
    ///
    /// # Errors
    /// Those of the call. [`Error::InvalidInput`] if the store is not in a SQL database.
    /// [`Error::Transaction`] with the words of the database: roll the transaction back.
    pub async fn within<X: SqlTransaction>(self, tx: &mut X) -> T {
        let CallState::New {
            service,
            operation: Some(operation),
        } = self.state
        else {
            let reason = "the call has been made already, without it";
            return T::failed(Error::invalid("transaction", reason));
        };
        operation.make_within(service, tx).await
    }
}

impl<'a, T: 'a> Future for TaskCall<'a, T> {
    type Output = T;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        let this = self.get_mut();
        if let CallState::New { service, operation } = &mut this.state
            && let Some(operation) = operation.take()
        {
            this.state = CallState::Made(operation.make(service));
        }
        match &mut this.state {
            CallState::Made(call) => call.as_mut().poll(cx),
            CallState::New { .. } => Poll::Pending,
        }
    }
}

impl<T> fmt::Debug for TaskCall<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TaskCall(..)")
    }
}

/// Sends one task.
pub(super) struct SendOne(pub(super) DelayQueueJob);

#[async_trait]
impl Operation for SendOne {
    type Answer = Result<Receipt>;

    async fn make(self: Box<Self>, service: &TaskSubmitService) -> Result<Receipt> {
        let answer = sent::send_all(service, vec![self.0]).await.pop();
        answer.unwrap_or(Err(Error::Closed("the store")))
    }

    async fn make_within(
        self: Box<Self>,
        service: &TaskSubmitService,
        tx: &mut dyn DynTransaction,
    ) -> Result<Receipt> {
        let answer = sent::send_within(service, vec![self.0], tx).await.pop();
        answer.unwrap_or(Err(Error::Closed("the store")))
    }
}

/// Sends many tasks.
pub(super) struct SendAll(pub(super) Vec<DelayQueueJob>);

#[async_trait]
impl Operation for SendAll {
    type Answer = Vec<Result<Receipt>>;

    async fn make(self: Box<Self>, service: &TaskSubmitService) -> Self::Answer {
        sent::send_all(service, self.0).await
    }

    async fn make_within(
        self: Box<Self>,
        service: &TaskSubmitService,
        tx: &mut dyn DynTransaction,
    ) -> Self::Answer {
        sent::send_within(service, self.0, tx).await
    }
}

/// The task that a call names.
pub(super) struct Named {
    task_type: TaskType,
    id: TaskId,
}

impl Named {
    pub(super) fn new(task_type: &str, id: &str) -> Result<Self> {
        let (task_type, id) = (TaskType::new(task_type)?, TaskId::new(id)?);
        Ok(Self { task_type, id })
    }
}

/// Cancels a task.
pub(super) struct Cancel(pub(super) Result<Named>);

#[async_trait]
impl Operation for Cancel {
    type Answer = Result<CancelOutcome>;

    async fn make(self: Box<Self>, service: &TaskSubmitService) -> Self::Answer {
        let Named { task_type, id } = self.0?;
        service.desk().cancel(&task_type, &id).await
    }

    async fn make_within(
        self: Box<Self>,
        service: &TaskSubmitService,
        tx: &mut dyn DynTransaction,
    ) -> Self::Answer {
        let Named { task_type, id } = self.0?;
        let outcome = service.within(tx)?.cancel(&task_type, &id).await?;
        debug!(%task_type, %id, ?outcome, "cancel in a transaction");
        Ok(outcome)
    }
}

/// Moves a scheduled task.
pub(super) struct Reschedule {
    pub(super) task: Result<Named>,
    pub(super) when: When,
}

impl Reschedule {
    fn checked(self, service: &TaskSubmitService) -> Result<(Named, When)> {
        check_delay("delay", self.when, &service.limits, service.clock.now())?;
        Ok((self.task?, self.when))
    }
}

#[async_trait]
impl Operation for Reschedule {
    type Answer = Result<ChangeOutcome>;

    async fn make(self: Box<Self>, service: &TaskSubmitService) -> Self::Answer {
        let (Named { task_type, id }, when) = self.checked(service)?;
        let moved = service.store.reschedule(&task_type, &id, when).await;
        moved.inspect(|outcome| debug!(%task_type, %id, ?when, ?outcome, "reschedule"))
    }

    async fn make_within(
        self: Box<Self>,
        service: &TaskSubmitService,
        tx: &mut dyn DynTransaction,
    ) -> Self::Answer {
        let (Named { task_type, id }, when) = self.checked(service)?;
        let mut within = service.within(tx)?;
        let moved = within.reschedule(&task_type, &id, when).await;
        moved.inspect(|outcome| debug!(%task_type, %id, ?outcome, "reschedule in a transaction"))
    }
}

/// Replaces the message of a scheduled task by JSON.
pub(super) struct Update {
    pub(super) task: Result<Named>,
    pub(super) message: Result<Vec<u8>>,
}

#[async_trait]
impl Operation for Update {
    type Answer = Result<ChangeOutcome>;

    async fn make(self: Box<Self>, service: &TaskSubmitService) -> Self::Answer {
        let (message, Named { task_type, id }) = (self.message?, self.task?);
        let message = NewMessage::new(message, &service.limits)?;
        message.put(&*service.store, &task_type, &id).await
    }

    async fn make_within(
        self: Box<Self>,
        service: &TaskSubmitService,
        tx: &mut dyn DynTransaction,
    ) -> Self::Answer {
        let (message, Named { task_type, id }) = (self.message?, self.task?);
        let message = NewMessage::new(message, &service.limits)?.into_bytes();
        let mut within = service.within(tx)?;
        within.update(&task_type, &id, &message).await
    }
}
