//! The content of a push: a task in one attempt.

use std::borrow::Cow;

use axum::http::{HeaderMap, HeaderName, HeaderValue};
use delayq_core::job::check_json;
use delayq_plugin::{Namespace, TaskContext};

use super::own_target::is_reserved;

/// Task headers that are also sent under their own names, for tracing.
const TRACE_HEADERS: [&str; 2] = ["traceparent", "tracestate"];

/// A task to push.
#[derive(Clone, Copy, Debug)]
pub(super) struct Parcel<'a> {
    pub(super) namespace: &'a Namespace,
    pub(super) message: &'a [u8],
    pub(super) cx: &'a TaskContext,
}

impl Parcel<'_> {
    /// The id of the push. It is the same in every attempt, and differs for a later task with the
    /// same id.
    pub(super) fn push_id(&self) -> String {
        let submitted_at = self.cx.submitted_at().as_millis();
        format!("{}/{}/{submitted_at}", self.cx.task_type(), self.cx.id())
    }

    /// The lock of the attempt in text form, for a settlement over HTTP.
    pub(super) fn lock(&self) -> String {
        format!("{}-{}", self.cx.fence(), self.cx.attempt())
    }

    /// The content type of the message.
    pub(super) fn content_type<'b>(&'b self, of_target: Option<&'b str>) -> Cow<'b, str> {
        if let Some(known) = of_target.or_else(|| self.cx.header("content-type")) {
            return Cow::Borrowed(known);
        }
        Cow::Borrowed(match std::str::from_utf8(self.message) {
            Ok(_) if check_json(self.message).is_ok() => "application/json",
            Ok(_) => "text/plain; charset=utf-8",
            Err(_) => "application/octet-stream",
        })
    }

    /// The headers of the task, without those about its target.
    pub(super) fn task_headers(&self) -> impl Iterator<Item = (&str, &str)> {
        let headers = self.cx.headers().iter();
        let headers = headers.filter(|(name, _)| !is_reserved(name));
        headers.map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// The facts of the attempt, with their header names.
    pub(super) fn facts(&self) -> [(&'static str, String); 7] {
        let cx = self.cx;
        [
            ("delayq-namespace", self.namespace.to_string()),
            ("delayq-task-type", cx.task_type().to_string()),
            ("delayq-task-id", cx.id().to_string()),
            ("delayq-attempt", cx.attempt().to_string()),
            ("delayq-tried", cx.tried().to_string()),
            ("delayq-fence", cx.fence().to_string()),
            ("delayq-due-at", cx.due_at().as_millis().to_string()),
        ]
    }

    /// Writes the facts of the attempt and the headers of the task as request headers.
    pub(super) fn put_into(&self, headers: &mut HeaderMap) {
        for (name, value) in self.facts() {
            if let Ok(value) = HeaderValue::from_str(&value) {
                headers.insert(HeaderName::from_static(name), value);
            }
        }
        for (name, value) in self.task_headers() {
            // Names and values that are not valid in a header are left out.
            let Ok(value) = HeaderValue::from_str(value) else {
                continue;
            };
            let lower = name.to_ascii_lowercase();
            // In gRPC, such a name requires a base64 value.
            if lower.ends_with("-bin") {
                continue;
            }
            if TRACE_HEADERS.contains(&lower.as_str())
                && let Ok(name) = HeaderName::from_bytes(lower.as_bytes())
            {
                headers.insert(name, value.clone());
            }
            if let Ok(name) = HeaderName::from_bytes(format!("delayq-header-{lower}").as_bytes()) {
                headers.insert(name, value);
            }
        }
    }
}
