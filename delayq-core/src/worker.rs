//! Workers: user code that runs a task, and its inputs.

use std::sync::Arc;

use async_trait::async_trait;

mod answers;
mod batch;
mod context;
mod error;
mod follow_ups;
mod options;
mod stop;
mod versioned;

pub use batch::{BATCH_HEADER, BatchEnd};
pub use context::{Attempt, EndWithin, OCCURRENCE_HEADER, TaskContext};
pub use error::{TaskError, TaskResult};
pub use options::{Delivery, LatePolicy, OnLate, WorkerOptions};
pub use stop::StopSignal;
pub use versioned::{NEWER_VERSION_WAIT, Versioned};

/// User code that runs the tasks of a type.
///
/// Delivery is at-least-once: after a crash or a lost lock the same task is delivered again. Make
/// the effect idempotent by the task id, or guard it with [`TaskContext::fence`].
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a worker",
    label = "this is no type with an `impl TaskWorker`",
    note = "a function is made a worker by `#[task_worker(type = \"order.cancel\")]` above it; it \
            is found when the plugin starts, and `.worker(..)` is not called for it",
    note = "a type is made a worker by `#[task_worker(type = \"order.cancel\")]` above its `impl \
            TaskWorker`, or by `#[async_trait]` above it and `.worker(..)`"
)]
#[async_trait]
pub trait TaskWorker: Send + Sync + 'static {
    /// Runs one attempt. `Ok` ends the task; an error retries it or sends it to dead, see
    /// [`TaskError`].
    ///
    /// # Errors
    /// The reason why this attempt failed.
    // The compiler shows the next line to users who forgot the attribute.
    async fn invoke(&self, message: &str, cx: &TaskContext) -> TaskResult; // #[task_worker(..)]?

    /// Runs one attempt on a message of raw bytes. By default it checks that the message is UTF-8
    /// and passes it to [`invoke`](Self::invoke); a worker for binary messages overrides this.
    ///
    /// # Errors
    /// As `invoke`; a message that is not UTF-8 goes to dead, because a retry cannot help.
    async fn invoke_bytes(&self, message: &[u8], cx: &TaskContext) -> TaskResult {
        match std::str::from_utf8(message) {
            Ok(text) => self.invoke(text, cx).await,
            Err(e) => Err(TaskError::dead(format!(
                "the message is not UTF-8 ({e}); override invoke_bytes to take binary messages"
            ))),
        }
    }
}

/// Allows a worker that is already built to be wrapped in another one.
// Otherwise the compiler suggests an `Arc` for a type that is not a worker.
#[diagnostic::do_not_recommend]
#[async_trait]
impl<W: TaskWorker + ?Sized> TaskWorker for Arc<W> {
    async fn invoke(&self, message: &str, cx: &TaskContext) -> TaskResult {
        (**self).invoke(message, cx).await
    }

    async fn invoke_bytes(&self, message: &[u8], cx: &TaskContext) -> TaskResult {
        (**self).invoke_bytes(message, cx).await
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::name::{TaskId, TaskType};
    use crate::task::Headers;
    use crate::time::Timestamp;

    struct Text;

    #[async_trait]
    impl TaskWorker for Text {
        async fn invoke(&self, message: &str, _cx: &TaskContext) -> TaskResult {
            let _: u32 = message.parse()?;
            Ok(())
        }
    }

    fn context() -> TaskContext {
        let attempt = Attempt {
            task_type: TaskType::new("a").unwrap(),
            id: TaskId::new("1").unwrap(),
            attempt: 1,
            tried: 1,
            due_at: Timestamp::from_millis(1_000),
            claimed_at: Timestamp::from_millis(1_002),
            submitted_at: Timestamp::ZERO,
            fence: 7,
            headers: Headers::new(),
        };
        TaskContext::new(attempt, StopSignal::new())
    }

    #[tokio::test]
    async fn any_error_means_retry_and_bytes_that_are_not_text_mean_dead() {
        let cx = context();
        assert_eq!(
            (cx.lateness(), cx.age()),
            (Duration::from_millis(2), Duration::from_millis(1_002))
        );
        assert!(matches!(Text.invoke_bytes(b"7", &cx).await, Ok(())));
        assert!(matches!(
            Text.invoke_bytes(b"x", &cx).await,
            Err(TaskError::Retry(_))
        ));
        assert!(matches!(
            Text.invoke_bytes(b"\xff", &cx).await,
            Err(TaskError::Dead(_))
        ));
    }
}
