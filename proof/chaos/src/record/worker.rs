//! A worker whose starts and ends are recorded.

use async_trait::async_trait;
use delayq_core::time::duration_ms;
use delayq_core::{TaskContext, TaskError, TaskResult, TaskWorker};

use super::{Recorder, digest, digest_of_headers};
use crate::event::{End, What};

/// Records when the worker inside starts and ends, and the digest of what it was given.
#[derive(Clone, Debug)]
pub struct RecordedWorker<W> {
    inner: W,
    recorder: Recorder,
    name: String,
    serves: String,
}

impl<W> RecordedWorker<W> {
    /// `inner`, recorded as the worker `name` that serves the type or pattern `serves`.
    pub fn new(inner: W, recorder: Recorder, name: &str, serves: &str) -> Self {
        Self {
            inner,
            recorder,
            name: name.to_owned(),
            serves: serves.to_owned(),
        }
    }
}

#[async_trait]
impl<W: TaskWorker> TaskWorker for RecordedWorker<W> {
    async fn invoke(&self, message: &str, cx: &TaskContext) -> TaskResult {
        self.invoke_bytes(message.as_bytes(), cx).await
    }

    async fn invoke_bytes(&self, message: &[u8], cx: &TaskContext) -> TaskResult {
        let task = format!("{}/{}", cx.task_type(), cx.id());
        self.recorder.record(What::WorkerStart {
            task: task.clone(),
            worker: self.name.clone(),
            serves: self.serves.clone(),
            attempt: cx.attempt(),
            fence: cx.fence(),
            due: cx.due_at(),
            digest: digest(message),
            headers: digest_of_headers(cx.headers()),
        });
        let result = self.inner.invoke_bytes(message, cx).await;
        self.recorder.record(What::WorkerEnd {
            task,
            worker: self.name.clone(),
            fence: cx.fence(),
            end: end_of(&result),
            told: cx.is_cancelled(),
        });
        result
    }
}

fn end_of(result: &TaskResult) -> End {
    let ms = |wait| u64::try_from(duration_ms(wait)).unwrap_or(0);
    match result {
        Ok(()) => End::Done,
        Err(TaskError::Dead(_)) => End::Dead,
        Err(TaskError::Release(wait)) => End::Release { after: ms(*wait) },
        Err(TaskError::RetryAfter(wait, _)) => End::Retry { after: ms(*wait) },
        Err(_) => End::Retry { after: 0 },
    }
}
