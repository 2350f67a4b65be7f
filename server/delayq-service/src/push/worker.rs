//! The worker that pushes tasks.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use delayq_plugin::{RetryPolicy, TaskContext, TaskError, TaskResult, TaskType, TaskWorker};

use super::board::Board;
use super::own_target::{self, OWN_TARGET};
use super::parcel::Parcel;
use super::seal::Subject;
use super::{KeptTask, Target, barred, service};
use crate::server_metric::PUSHES;

/// How long a task without a target waits, so that another worker can serve its type.
const NO_TARGET: Duration = Duration::from_secs(2);

/// A worker that runs a task by pushing it. It reads the target at each attempt, so that a change
/// applies at once.
#[derive(Debug)]
pub(super) struct PushWorker {
    board: Arc<Board>,
}

impl PushWorker {
    pub(super) fn new(board: &Arc<Board>) -> Self {
        Self {
            board: Arc::clone(board),
        }
    }

    /// The target of a type: the stored one, or else its instances.
    fn target_of(&self, task_type: &TaskType) -> Option<Arc<Target>> {
        let set = self.board.of_type(task_type);
        set.or_else(|| {
            let instances = self.board.instances(task_type);
            (!instances.is_empty()).then(|| Arc::new(Target::of_service()))
        })
    }

    /// The target in a task's own header.
    async fn own_target(
        &self,
        text: &str,
        message: &[u8],
        cx: &TaskContext,
    ) -> Result<(Target, Option<RetryPolicy>), TaskError> {
        let board = &self.board;
        if !board.courier.config.allow_task_targets {
            let sealer = board.sealer().await?;
            let subject = Subject {
                task_type: cx.task_type(),
                id: cx.id(),
                message,
            };
            if !sealer.has_sealed(subject, cx.headers(), cx.submitted_at()) {
                return Err(TaskError::dead(
                    "no server has given this task, with this message, its target: create the task \
                     with the header Delayq-Target and a token of scope operate",
                ));
            }
        }
        // A server of a later release may have given it a target that this one cannot read.
        let read = own_target::read_stored(text, &board.courier);
        let mut target = read.map_err(|reason| barred::give_back(cx, &reason))?;
        // The task's own target is signed with the secrets of the type's target.
        let of_type = board.of_type(cx.task_type());
        let retry = match &of_type {
            _ if target.retry.is_some() => Some(target.own_retry()),
            Some(of_type) => board.retry(cx.task_type(), of_type),
            None => {
                let usual = target.own_retry();
                let set = board.policies.retry(cx.task_type(), usual.max_attempts);
                Some(set.unwrap_or(usual))
            }
        };
        let secrets = of_type.and_then(|one| one.http.as_ref()?.secrets.clone());
        if let Some(http) = &mut target.http {
            http.secrets = secrets;
        }
        Ok((target, retry))
    }
}

/// Applies the retry policy of a task or of its type to the end of an attempt.
fn repeated(retry: RetryPolicy, tried: u32, result: TaskResult) -> TaskResult {
    let (asked, error) = match result {
        Err(TaskError::Retry(error)) => (None, error),
        Err(TaskError::RetryAfter(wait, error)) => (Some(wait), error),
        other => return other,
    };
    Err(match retry.wait_after(tried) {
        Some(wait) => TaskError::retry_after(asked.unwrap_or(wait), error),
        None => TaskError::dead(error),
    })
}

async fn push(board: &Board, target: &Target, parcel: &Parcel<'_>) -> TaskResult {
    let result = match target.service {
        Some(_) => service::push(board, target, parcel).await,
        None => board.courier.push(target, parcel).await,
    };
    let outcome = match &result {
        Ok(()) => "done",
        Err(TaskError::Dead(_)) => "dead",
        Err(TaskError::Release(..)) => "given_back",
        Err(_) => "failed",
    };
    metrics::counter!(
        PUSHES,
        "delayq_namespace" => board.namespace.as_str().to_owned(),
        "kind" => target.kind(),
        "outcome" => outcome
    )
    .increment(1);
    result
}

#[async_trait]
impl TaskWorker for PushWorker {
    async fn invoke(&self, message: &str, cx: &TaskContext) -> TaskResult {
        self.invoke_bytes(message.as_bytes(), cx).await
    }

    async fn invoke_bytes(&self, message: &[u8], cx: &TaskContext) -> TaskResult {
        let board = &self.board;
        let (target, retry) = if let Some(text) = cx.header(OWN_TARGET) {
            let (target, retry) = self.own_target(text, message, cx).await?;
            (Arc::new(target), retry)
        } else {
            let target = self.target_of(cx.task_type());
            let target = target.ok_or_else(|| TaskError::release(NO_TARGET))?;
            let courier = &board.courier;
            let allowed = target.allowed(&courier.guard, &courier.config);
            allowed.map_err(|reason| barred::give_back(cx, &reason))?;
            let retry = board.retry(cx.task_type(), &target);
            (target, retry)
        };
        let parcel = Parcel {
            namespace: &board.namespace,
            message,
            cx,
        };
        let result = tokio::select! {
            result = push(board, &target, &parcel) => result,
            // The lock is lost, the task was cancelled, or the server is stopping: the request is
            // dropped.
            () = cx.cancelled() => return Err(TaskError::release(Duration::ZERO)),
        };
        if result.is_ok() && target.keep_task == Some(true) {
            // The push succeeded. If the task cannot be kept as its reply, only that information is
            // lost.
            KeptTask::keep(cx, message, board.courier.kept_for).ok();
        }
        match retry {
            Some(retry) => repeated(retry, cx.tried(), result),
            None => result,
        }
    }
}
