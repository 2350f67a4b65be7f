//! A job, from the fields of a line.

use std::collections::BTreeMap;
use std::time::Duration;

use delayq_plugin::{DelayQueueJob, Error, IntoDelay, Result, Timestamp};
use serde::Deserialize;
use serde_json::Value;

/// The fields of `send`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct JobLine {
    #[serde(rename = "type")]
    task_type: String,
    message: Value,
    id: Option<String>,
    after: Option<String>,
    at: Option<i64>,
    on_conflict: Option<String>,
    debounce: Option<String>,
    max_wait: Option<String>,
    throttle: Option<String>,
    expires_after: Option<String>,
    expires_at: Option<i64>,
    group: Option<String>,
    project: Option<String>,
    headers: BTreeMap<String, String>,
    again_if_running: bool,
    pub(crate) wait: Option<String>,
}

impl JobLine {
    pub(crate) fn read(line: &Value) -> Result<Self> {
        Self::deserialize(line).map_err(|error| Error::invalid("line", error.to_string()))
    }

    pub(crate) fn job(&self) -> Result<DelayQueueJob> {
        let mut job = DelayQueueJob::new(&self.task_type, &self.message)?;
        if let Some(id) = &self.id {
            job = job.id(id);
        }
        if let Some(after) = &self.after {
            job = job.after(after);
        }
        if let Some(at) = self.at {
            job = job.at(Timestamp::from_millis(at));
        }
        if let Some(debounce) = &self.debounce {
            job = job.debounce(debounce, self.max_wait.as_ref().unwrap_or(debounce));
        }
        if let Some(throttle) = &self.throttle {
            job = job.throttle(throttle);
        }
        if let Some(after) = &self.expires_after {
            job = job.expires_after(after);
        }
        if let Some(at) = self.expires_at {
            job = job.expires_at(Timestamp::from_millis(at));
        }
        if let Some(group) = &self.group {
            job = job.group(group);
        }
        if let Some(project) = &self.project {
            job = job.header("project", project);
        }
        for (name, value) in &self.headers {
            job = job.header(name, value);
        }
        if self.again_if_running {
            job = job.again_if_running();
        }
        Ok(match self.on_conflict.as_deref() {
            Some("keep") => job.keep(),
            Some("replace") => job.replace(),
            _ => job,
        })
    }
}

/// A span such as `1500ms`.
pub(crate) fn span(text: &str) -> Result<Duration> {
    text.into_delay()
}
