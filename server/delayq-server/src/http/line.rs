//! A task as JSON describes it.

use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use delayq_core::job::{CONTENT_TYPE, JSON_TYPE, check_json, with_kept_names};
use delayq_core::task::Headers;
use delayq_plugin::DelayQueueJob;
use delayq_service::json::{distinct, read_object, written};
use delayq_service::problem::Problem;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::form::{CreateOptions, TextOrNumber, refuse_own, text_or_number};

/// A line that describes a task.
#[derive(Debug, Default, Deserialize, Serialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Line {
    /// The type of the task, where the path does not name it.
    #[serde(rename = "type")]
    task_type: Option<String>,
    /// The id of the task; absent means a new id.
    id: Option<String>,
    /// The message, as text.
    message: Option<String>,
    /// The message, in base64.
    message_base64: Option<String>,
    /// The message as any JSON value, also `null`, sent exactly as written here. Its header
    /// `content-type` is `application/json`, unless the headers name another one.
    #[serde(deserialize_with = "written", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<serde_json::Value>)]
    json: Option<Box<RawValue>>,
    /// Headers of the task. Names are kept in lower case and are those of HTTP; values have neither
    /// control characters nor blanks at their ends.
    #[serde(deserialize_with = "distinct")]
    headers: BTreeMap<String, String>,
    /// The delay from acceptance: milliseconds, or a span such as `30m`.
    #[serde(deserialize_with = "text_or_number")]
    #[schema(value_type = Option<TextOrNumber>)]
    delay: Option<String>,
    /// The due time: milliseconds since the epoch, or RFC 3339.
    #[serde(deserialize_with = "text_or_number")]
    #[schema(value_type = Option<TextOrNumber>)]
    at: Option<String>,
    /// What to do if another task has this id: `reject` (default), `keep` or `replace`.
    on_conflict: Option<String>,
    /// Due once this span has passed without another create of this id, and at the latest after
    /// `max_wait`. Needs an id.
    #[serde(deserialize_with = "text_or_number")]
    #[schema(value_type = Option<TextOrNumber>)]
    debounce: Option<String>,
    /// With `debounce`: the longest wait, from the first create on.
    #[serde(deserialize_with = "text_or_number")]
    #[schema(value_type = Option<TextOrNumber>)]
    max_wait: Option<String>,
    /// One task for each id and window of this length, due at the end of the window. Needs an id.
    #[serde(deserialize_with = "text_or_number")]
    #[schema(value_type = Option<TextOrNumber>)]
    throttle: Option<String>,
    /// Drop the task unless it starts within this span after its due time.
    #[serde(deserialize_with = "text_or_number")]
    #[schema(value_type = Option<TextOrNumber>)]
    expires_after: Option<String>,
    /// Drop the task unless it starts before this time.
    #[serde(deserialize_with = "text_or_number")]
    #[schema(value_type = Option<TextOrNumber>)]
    expires_at: Option<String>,
    /// The label of a group.
    group: Option<String>,
    /// The label of a project.
    project: Option<String>,
    /// If the task runs now, run it again afterwards.
    again_if_running: Option<bool>,
}

/// The content of a task in a form, which has the message in one of three fields.
#[derive(Debug)]
pub(super) struct Content {
    pub(super) text: Option<String>,
    pub(super) base64: Option<String>,
    pub(super) json: Option<Box<RawValue>>,
    pub(super) headers: BTreeMap<String, String>,
}

impl Content {
    /// The headers, with their names as they are kept. A message that is given as JSON is said to
    /// be JSON, unless they say something else.
    pub(super) fn take_headers(&mut self) -> Result<Headers, Problem> {
        let mut headers = with_kept_names(std::mem::take(&mut self.headers))?;
        if self.json.is_some() {
            let kind = headers.entry(CONTENT_TYPE.to_owned());
            kind.or_insert_with(|| JSON_TYPE.to_owned());
        }
        Ok(headers)
    }

    /// The message.
    pub(super) fn message(self) -> Result<Vec<u8>, Problem> {
        match (self.text, self.base64, self.json) {
            (None, None, None) => Ok(Vec::new()),
            (Some(text), None, None) => Ok(text.into_bytes()),
            (None, Some(base64), None) => STANDARD
                .decode(base64)
                .map_err(|error| Problem::bad_request(format!("message_base64: {error}"))),
            (None, None, Some(json)) => {
                let json = json.get().as_bytes();
                let checked = check_json(json);
                checked.map_err(|reason| Problem::bad_request(format!("json: {reason}")))?;
                Ok(json.to_vec())
            }
            _ => {
                let text = "give one of message, message_base64 and json";
                Err(Problem::bad_request(text))
            }
        }
    }
}

impl Line {
    /// Parses a line.
    pub(super) fn read(text: &[u8]) -> Result<Self, Problem> {
        read_object(text).map_err(|error| Problem::bad_request(error.to_string()))
    }

    /// The job that the line describes, of the type that the path names.
    pub(super) fn job_of(self, task_type: &str) -> Result<DelayQueueJob, Problem> {
        if self.task_type.is_some() {
            let text = "type: it is that of the path, so leave it out";
            return Err(Problem::bad_request(text));
        }
        self.job(task_type)
    }

    /// The job that the line describes, of the type that it names itself.
    pub(super) fn typed_job(mut self) -> Result<DelayQueueJob, Problem> {
        let task_type = self.task_type.take();
        let missing = || Problem::bad_request("type: it is missing, give each task its type");
        self.job(&task_type.ok_or_else(missing)?)
    }

    fn job(self, task_type: &str) -> Result<DelayQueueJob, Problem> {
        let mut content = Content {
            text: self.message,
            base64: self.message_base64,
            json: self.json,
            headers: self.headers,
        };
        let headers = content.take_headers()?;
        let mut job = DelayQueueJob::raw(task_type, content.message()?);
        if let Some(id) = self.id {
            job = job.id(id);
        }
        for (name, value) in headers {
            job = job.header(refuse_own(name)?, value);
        }
        let options = CreateOptions {
            delay: self.delay,
            at: self.at,
            on_conflict: self.on_conflict,
            debounce: self.debounce,
            max_wait: self.max_wait,
            throttle: self.throttle,
            expires_after: self.expires_after,
            expires_at: self.expires_at,
            group: self.group,
            project: self.project,
            again_if_running: self.again_if_running,
            wait: None,
        };
        options.apply(job)
    }
}
