//! The completion of a batch, as stored in its watcher's message.

use std::time::Duration;

use delayq_core::task::Headers;
use delayq_core::{
    DelayQueueJob, Error, Expiry, NewTask, Result, TaskId, TaskType, Timestamp, When, millis,
};
use serde::{Deserialize, Serialize};

use super::{BATCH_HEADER, BatchEnd};

/// The job that is sent when a batch has ended, without its message.
#[derive(Serialize, Deserialize)]
pub(crate) struct Completion {
    #[serde(rename = "type")]
    pub(crate) task_type: TaskType,
    pub(crate) id: TaskId,
    #[serde(default, skip_serializing_if = "Headers::is_empty")]
    headers: Headers,
    when: Time,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    expiry: Option<Time>,
}

/// A time, or a span in milliseconds.
#[derive(Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Time {
    At(Timestamp),
    After(u64),
}

impl Time {
    fn after(span: Duration) -> Self {
        Self::After(u64::try_from(span.as_millis()).unwrap_or(u64::MAX))
    }
}

impl Completion {
    /// The completion and its message, from `task` under `id`.
    pub(super) fn new(task: NewTask, id: TaskId) -> (Self, Vec<u8>) {
        let when = match task.when {
            When::At(time) => Time::At(time),
            When::After(delay) => Time::after(delay),
        };
        let expiry = task.expiry.map(|expiry| match expiry {
            Expiry::At(time) => Time::At(time),
            Expiry::AfterDue(span) => Time::after(span),
        });
        let completion = Self {
            task_type: task.task_type,
            id,
            headers: task.headers,
            when,
            expiry,
        };
        (completion, task.message)
    }

    /// The job, which has already passed the middleware of the batch's sender.
    pub(super) fn job(&self, message: &[u8], end: &BatchEnd) -> Result<DelayQueueJob> {
        let end = serde_json::to_string(end).map_err(Error::serialize)?;
        let job = DelayQueueJob::raw(self.task_type.as_str(), message);
        let headers = self.headers.iter();
        let job = headers.fold(job, |job, (name, value)| job.header(name, value));
        let job = match self.when {
            Time::At(time) => job.at(time),
            Time::After(ms) => job.after(millis(ms)),
        };
        let job = match self.expiry {
            Some(Time::At(time)) => job.expires_at(time),
            Some(Time::After(ms)) => job.expires_after(millis(ms)),
            None => job,
        };
        let job = job.header(BATCH_HEADER, end).id(self.id.as_str()).keep();
        Ok(job.passed_middleware())
    }
}
