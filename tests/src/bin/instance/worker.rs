//! The worker: it does what the message says, and logs it.

use std::sync::Arc;

use delayq_plugin::{TaskContext, TaskError, TaskResult, TaskWorker, millis};
use delayq_tests::instance::log::{Log, What};
use delayq_tests::instance::plan::{Chore, Outcome};

pub(crate) struct Logged(pub(crate) Arc<Log>);

#[async_trait::async_trait]
impl TaskWorker for Logged {
    async fn invoke(&self, message: &str, cx: &TaskContext) -> TaskResult {
        let task = format!("{}/{}", cx.task_type(), cx.id());
        self.0.write(What::Start {
            task: task.clone(),
            attempt: cx.attempt(),
            fence: cx.fence(),
            due: cx.due_at().as_millis(),
            claimed: cx.due_at().plus(cx.lateness()).as_millis(),
        });
        let outcome = perform(serde_json::from_str(message)?, cx).await;
        self.0.write(What::End {
            task,
            fence: cx.fence(),
            outcome,
            told: cx.is_cancelled(),
        });
        match outcome {
            Outcome::Done => Ok(()),
            Outcome::Retry => Err(TaskError::retry("in a mood")),
            Outcome::Release => Err(TaskError::release(millis(20))),
            Outcome::Dead => Err(TaskError::dead("told so")),
        }
    }
}

async fn perform(chore: Chore, cx: &TaskContext) -> Outcome {
    match chore {
        Chore::UntilTold(outcome) => {
            cx.cancelled().await;
            return outcome;
        }
        Chore::Abort => std::process::abort(),
        Chore::Heed(_) => tokio::select! {
            () = cx.cancelled() => return Outcome::Retry,
            () = tokio::time::sleep(chore.takes()) => {}
        },
        Chore::Work(_) | Chore::Moody(_) => tokio::time::sleep(chore.takes()).await,
    }
    match (chore, fastrand::u32(0..10)) {
        (Chore::Moody(_), 0..3) => Outcome::Retry,
        (Chore::Moody(_), 3..6) => Outcome::Release,
        _ => Outcome::Done,
    }
}
