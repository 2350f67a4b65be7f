//! JSON forms of requests and answers, with the field names of the gRPC messages.

use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use delayq_proto::pb::tasks;
use delayq_service::json::distinct;
use delayq_service::problem::Problem;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;

use super::state::name;

/// The retry policy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct RetryForm {
    count: u32,
    interval: u32,
}

/// A task to create: the common fields, and the fields of one of the three kinds.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct TaskForm {
    request_id: String,
    project: String,
    group: String,
    trigger_at: i64,
    retry: Option<RetryForm>,
    format: String,
    /// A string is used as it stands; any other value is used as JSON, exactly as written.
    body: Option<Box<RawValue>>,
    body_base64: Option<String>,
    timeout: u32,
    url: Option<String>,
    method: Option<String>,
    #[serde(deserialize_with = "some_distinct")]
    headers: Option<BTreeMap<String, String>>,
    target: Option<String>,
    service: Option<String>,
    #[serde(deserialize_with = "some_distinct")]
    metadata: Option<BTreeMap<String, String>>,
    topic: Option<String>,
    key: Option<String>,
    cluster: Option<String>,
}

/// Reads an object whose names are all different.
fn some_distinct<'de, D: Deserializer<'de>>(
    from: D,
) -> Result<Option<BTreeMap<String, String>>, D::Error> {
    distinct(from).map(Some)
}

impl TaskForm {
    /// Takes the common fields.
    fn options(&mut self) -> Result<tasks::TaskOptions, Problem> {
        let body = match (self.body.take(), self.body_base64.take()) {
            (Some(_), Some(_)) => {
                let text = "body and body_base64 exclude each other";
                return Err(Problem::bad_request(text));
            }
            (Some(value), None) => {
                let text: Result<String, _> = serde_json::from_str(value.get());
                let text = text.unwrap_or_else(|_| value.get().to_owned());
                text.into_bytes()
            }
            (None, Some(text)) => STANDARD
                .decode(text)
                .map_err(|error| Problem::bad_request(format!("body_base64: {error}")))?,
            (None, None) => Vec::new(),
        };
        let retry = self
            .retry
            .map(|RetryForm { count, interval }| tasks::Retry { count, interval });
        Ok(tasks::TaskOptions {
            request_id: std::mem::take(&mut self.request_id),
            project: std::mem::take(&mut self.project),
            group: std::mem::take(&mut self.group),
            trigger_at: self.trigger_at,
            retry,
            format: std::mem::take(&mut self.format),
            body,
            timeout: self.timeout,
        })
    }

    /// Refuses fields that belong to other kinds.
    fn check_rest(&self, kind: &str) -> Result<(), Problem> {
        let fields = [
            ("url", self.url.is_some()),
            ("method", self.method.is_some()),
            ("headers", self.headers.is_some()),
            ("target", self.target.is_some()),
            ("service", self.service.is_some()),
            ("metadata", self.metadata.is_some()),
            ("topic", self.topic.is_some()),
            ("key", self.key.is_some()),
            ("cluster", self.cluster.is_some()),
        ];
        match fields.into_iter().find(|(_, is_there)| *is_there) {
            Some((field, _)) => {
                let text = format!("{field}: a task of {kind} has no such field");
                Err(Problem::bad_request(text))
            }
            None => Ok(()),
        }
    }

    pub(super) fn http(mut self) -> Result<tasks::CreateHttpTaskRequest, Problem> {
        let request = tasks::CreateHttpTaskRequest {
            task: Some(self.options()?),
            url: self.url.take().unwrap_or_default(),
            method: self.method.take().unwrap_or_default(),
            headers: self.headers.take().unwrap_or_default(),
        };
        self.check_rest("HTTP").map(|()| request)
    }

    pub(super) fn grpc(mut self) -> Result<tasks::CreateGrpcTaskRequest, Problem> {
        let request = tasks::CreateGrpcTaskRequest {
            task: Some(self.options()?),
            target: self.target.take().unwrap_or_default(),
            service: self.service.take().unwrap_or_default(),
            method: self.method.take().unwrap_or_default(),
            metadata: self.metadata.take().unwrap_or_default(),
        };
        self.check_rest("gRPC").map(|()| request)
    }

    pub(super) fn kafka(mut self) -> Result<tasks::CreateKafkaTaskRequest, Problem> {
        let request = tasks::CreateKafkaTaskRequest {
            task: Some(self.options()?),
            topic: self.topic.take().unwrap_or_default(),
            key: self.key.take().unwrap_or_default(),
            headers: self.headers.take().unwrap_or_default(),
            cluster: self.cluster.take().unwrap_or_default(),
        };
        self.check_rest("Kafka").map(|()| request)
    }
}

/// Identifies a task.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct WhichForm {
    pub(super) task_id: String,
    pub(super) request_id: String,
    pub(super) project: String,
    pub(super) group: String,
}

impl WhichForm {
    /// Identifies the task with this id.
    pub(super) fn of(task_id: String) -> Self {
        Self {
            task_id,
            ..Self::default()
        }
    }
}

/// Messages that identify a task.
macro_rules! which_task {
    ($($request:ident)*) => {$(
        impl From<tasks::$request> for WhichForm {
            fn from(request: tasks::$request) -> Self {
                Self {
                    task_id: request.task_id,
                    request_id: request.request_id,
                    project: request.project,
                    group: request.group,
                }
            }
        }
    )*}
}

which_task! { CancelTaskRequest QueryTaskRequest }

/// An accepted task.
#[derive(Clone, Debug, Serialize)]
pub(super) struct CreatedForm {
    task_id: String,
    pub(super) created: bool,
    state: &'static str,
}

impl From<tasks::CreateTaskResponse> for CreatedForm {
    fn from(answer: tasks::CreateTaskResponse) -> Self {
        Self {
            task_id: answer.task_id,
            created: answer.created,
            state: name(answer.state),
        }
    }
}

/// The outcome of a cancel.
#[derive(Clone, Debug, Serialize)]
pub(super) struct CancelledForm {
    cancelled: bool,
    state: &'static str,
}

impl From<tasks::CancelTaskResponse> for CancelledForm {
    fn from(answer: tasks::CancelTaskResponse) -> Self {
        Self {
            cancelled: answer.cancelled,
            state: name(answer.state),
        }
    }
}

/// The known facts of a task; unknown ones are left out.
#[derive(Clone, Debug, Serialize)]
pub(super) struct TaskView {
    task_id: String,
    project: String,
    group: String,
    state: &'static str,
    state_at: i64,
    attempts: u32,
    #[serde(skip_serializing_if = "String::is_empty")]
    kind: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    trigger_at: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    created_at: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    retry: Option<RetryForm>,
    #[serde(skip_serializing_if = "String::is_empty")]
    format: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    body: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    body_base64: Option<String>,
    #[serde(skip_serializing_if = "String::is_empty")]
    request_id: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    last_error: String,
}

impl From<tasks::QueryTaskResponse> for TaskView {
    fn from(answer: tasks::QueryTaskResponse) -> Self {
        let is_whole = answer.created_at != 0;
        let (body, body_base64) = match String::from_utf8(answer.body) {
            Ok(text) => (Some(text).filter(|_| is_whole), None),
            Err(error) => (None, Some(STANDARD.encode(error.as_bytes()))),
        };
        let retry = answer.retry;
        Self {
            task_id: answer.task_id,
            project: answer.project,
            group: answer.group,
            state: name(answer.state),
            state_at: answer.state_at,
            attempts: answer.attempts,
            kind: answer.kind,
            trigger_at: Some(answer.trigger_at).filter(|_| is_whole),
            created_at: Some(answer.created_at).filter(|_| is_whole),
            retry: retry.map(|tasks::Retry { count, interval }| RetryForm { count, interval }),
            format: answer.format,
            body,
            body_base64,
            request_id: answer.request_id,
            last_error: answer.last_error,
        }
    }
}

#[cfg(test)]
mod tests {
    use delayq_service::json::read_object;

    use super::*;

    fn body_of(text: &str) -> String {
        let form: TaskForm = read_object(text.as_bytes()).unwrap();
        let task = form.http().map(|request| request.task);
        String::from_utf8(task.unwrap().unwrap().body).unwrap()
    }

    #[test]
    fn a_body_in_json_is_what_was_written_and_a_text_is_its_content() {
        let exact = r#"{"n": 12345678901234567890123, "a": 1.0, "a": 2}"#;
        assert_eq!(body_of(&format!("{{\"body\": {exact}}}")), exact);
        assert_eq!(body_of(r#"{"body": "a \"text\""}"#), "a \"text\"");
    }

    #[test]
    fn a_header_that_is_there_twice_is_refused() {
        let twice = read_object::<TaskForm>(br#"{"headers": {"a": "1", "a": "2"}}"#);
        assert!(
            twice
                .unwrap_err()
                .to_string()
                .contains("\"a\" is there twice")
        );
    }
}
