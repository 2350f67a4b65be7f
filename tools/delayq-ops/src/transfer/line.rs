//! One task as a line of JSON.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use delayq_plugin::store::{MAX_MESSAGE_BYTES, NewTask};
use delayq_plugin::{
    AttemptHistory, DelayQueueJob, Limits, PastError, TaskId, TaskInfo, TaskState, TaskType,
    Timestamp, When,
};
use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer, Serialize};
use std::collections::BTreeMap;

use super::TransferFault;

/// The version of the format.
const VERSION: u32 = 1;

/// The stored format. An import refuses fields that it does not know.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Line {
    v: u32,
    #[serde(rename = "type")]
    pub(crate) task_type: TaskType,
    pub(crate) id: TaskId,
    pub(super) state: TaskState,
    /// The due time of its next attempt or, for a dead task, the time of its death. Milliseconds
    /// since the epoch.
    at: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    expires_at: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    message: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    message_base64: Option<String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    headers: BTreeMap<String, String>,
    /// For people; not read.
    #[serde(default, deserialize_with = "unread")]
    past: PastFacts,
}

/// The part that an import cannot restore.
#[derive(Debug, Default, Serialize)]
struct PastFacts {
    submitted_at: Option<Timestamp>,
    attempt: u32,
    history: AttemptHistory,
    errors: Vec<PastError>,
    again_at: Option<Timestamp>,
}

/// The past of a task, whatever it says.
fn unread<'de, D: Deserializer<'de>>(deserializer: D) -> Result<PastFacts, D::Error> {
    IgnoredAny::deserialize(deserializer).map(|_| PastFacts::default())
}

impl Line {
    pub(super) fn of(task_type: &TaskType, task: TaskInfo) -> Self {
        let (message, message_base64) = match String::from_utf8(task.message.unwrap_or_default()) {
            Ok(text) => (Some(text), None),
            Err(bytes) => (None, Some(STANDARD.encode(bytes.as_bytes()))),
        };
        Self {
            v: VERSION,
            task_type: task_type.clone(),
            id: task.id,
            state: task.state,
            at: task.at,
            expires_at: task.expires_at,
            message,
            message_base64,
            headers: task.headers,
            past: PastFacts {
                submitted_at: task.submitted_at,
                attempt: task.attempt,
                history: task.history,
                errors: task.errors,
                again_at: task.again_at,
            },
        }
    }

    pub(crate) fn read(text: &[u8]) -> Result<Self, TransferFault> {
        let fault = |error: serde_json::Error| TransferFault::Line(format!("no task: {error}"));
        let line: Self = serde_json::from_slice(text).map_err(fault)?;
        if line.v > VERSION {
            let what = format!(
                "it has version {}, known is up to {VERSION}: upgrade",
                line.v
            );
            return Err(TransferFault::Line(what));
        }
        if !matches!(line.state, TaskState::Scheduled | TaskState::Dead) {
            let what = format!(
                "its state is {}, and only scheduled and dead tasks can be moved: take the line out",
                line.state
            );
            return Err(TransferFault::Line(what));
        }
        line.message_bytes()?;
        Ok(line)
    }

    fn message_bytes(&self) -> Result<Vec<u8>, TransferFault> {
        match (&self.message, &self.message_base64) {
            (Some(text), None) => Ok(text.clone().into_bytes()),
            (None, Some(coded)) => STANDARD.decode(coded).map_err(|error| {
                TransferFault::Line(format!("message_base64 is no base64: {error}"))
            }),
            _ => {
                let what = "it needs either message or message_base64";
                Err(TransferFault::Line(what.to_owned()))
            }
        }
    }

    /// Its approximate size in memory in bytes.
    pub(super) fn size(&self) -> usize {
        let size = |text: &Option<String>| text.as_ref().map_or(0, String::len);
        size(&self.message) + size(&self.message_base64)
    }

    /// The task to submit, checked like a job; `now` is this host's time.
    ///
    /// The limit of a delay is that of a sender. A store holds longer ones, which the clients of
    /// beanstalkd and lmstfy may ask for.
    pub(crate) fn task(&self, now: Timestamp) -> Result<NewTask, TransferFault> {
        let message = self.message_bytes()?;
        let limits = Limits {
            max_message_bytes: MAX_MESSAGE_BYTES,
            ..Limits::default()
        };
        let mut job = DelayQueueJob::raw(self.task_type.as_str(), message)
            .id(self.id.as_str())
            .at(self.at.min(now.plus(limits.max_delay)));
        if let Some(time) = self.expires_at {
            job = job.expires_at(time);
        }
        for (name, value) in &self.headers {
            job = job.header(name, value);
        }
        let mut task = job.into_task(&limits, now)?;
        task.when = When::At(self.at);
        Ok(task)
    }
}
