//! Requests in JSON.

use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use delayq_core::{Expiry, NewTask, OnConflict, TaskId, TaskType, Timestamp, When};
use serde_json::{Map, Value, json};

/// The database takes a smaller number for seconds, and refuses it. It is 2001, so the task is due
/// or expired with either.
const FIRST_MS: i64 = 978_307_200_000;

/// A request, or a task in one.
pub(super) struct Body(Map<String, Value>);

impl Body {
    /// A request for a call.
    pub(super) fn new(call: &str) -> Self {
        Self(Map::new()).with("call", call)
    }

    /// A task to send.
    pub(super) fn task(task: &NewTask) -> Value {
        let body = Self(Map::new())
            .with("type", task.task_type.as_str())
            .with("id", task.id.as_str())
            .when(task.when)
            .message(&task.message);
        let body = match task.expiry {
            Some(Expiry::At(time)) => body.with("expires_at_ms", at_ms(time)),
            Some(Expiry::AfterDue(span)) => body.with("expires_after_ms", span_ms(span)),
            None => body,
        };
        let mut body = match task.on_conflict {
            OnConflict::Reject => body,
            OnConflict::Keep => body.with("on_conflict", "keep"),
            OnConflict::Replace => body.with("on_conflict", "replace"),
            OnConflict::Debounce { max_wait } => {
                body.with("debounce_max_wait_ms", span_ms(max_wait))
            }
        };
        if task.again_if_running {
            body = body.with("again_if_running", true);
        }
        if !task.headers.is_empty() {
            body = body.with("headers", json!(task.headers));
        }
        Value::Object(body.0)
    }

    pub(super) fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.0.insert(name.to_owned(), value.into());
        self
    }

    /// The one task that a call names.
    pub(super) fn of(self, task_type: &TaskType, id: &TaskId) -> Self {
        self.with("type", task_type.as_str())
            .with("id", id.as_str())
    }

    /// The same for a call that takes several.
    pub(super) fn of_each(self, task_type: &TaskType, id: &TaskId) -> Self {
        self.with("type", task_type.as_str())
            .with("ids", vec![id.as_str()])
    }

    pub(super) fn when(self, when: When) -> Self {
        match when {
            When::After(delay) => self.with("delay_ms", span_ms(delay)),
            When::At(time) => self.with("at_ms", at_ms(time)),
        }
    }

    /// A text is written as it is, but for one with a zero, which the database has no text for.
    pub(super) fn message(self, message: &[u8]) -> Self {
        match std::str::from_utf8(message) {
            Ok(text) if !text.contains('\0') => self.with("message", text),
            _ => self.with("message_base64", BASE64_STANDARD.encode(message)),
        }
    }

    pub(super) fn into_text(self) -> String {
        Value::Object(self.0).to_string()
    }
}

fn at_ms(time: Timestamp) -> i64 {
    time.as_millis().max(FIRST_MS)
}

/// A span as stores count it: a part of a millisecond is a whole one.
fn span_ms(span: Duration) -> i64 {
    Timestamp::ZERO.plus(span).as_millis()
}
