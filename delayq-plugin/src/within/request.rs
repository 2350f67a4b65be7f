//! Requests in JSON.

use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use delayq_core::{Expiry, NewTask, OnConflict, Timestamp, When};
use serde_json::{Value, json};

/// The database takes a smaller number for seconds, and refuses it. It is 2001, so the task is due
/// or expired with either.
const FIRST_MS: i64 = 978_307_200_000;

/// A task to send.
pub(super) fn task(task: &NewTask) -> Value {
    let mut body = json!({"type": task.task_type.as_str(), "id": task.id.as_str()});
    put_when(&mut body, task.when);
    put_message(&mut body, &task.message);
    match task.expiry {
        Some(Expiry::At(time)) => body["expires_at_ms"] = at_ms(time).into(),
        Some(Expiry::AfterDue(span)) => body["expires_after_ms"] = span_ms(span).into(),
        None => {}
    }
    match task.on_conflict {
        OnConflict::Reject => {}
        OnConflict::Keep => body["on_conflict"] = "keep".into(),
        OnConflict::Replace => body["on_conflict"] = "replace".into(),
        OnConflict::Debounce { max_wait } => {
            body["debounce_max_wait_ms"] = span_ms(max_wait).into();
        }
    }
    if task.again_if_running {
        body["again_if_running"] = true.into();
    }
    if !task.headers.is_empty() {
        body["headers"] = json!(task.headers);
    }
    body
}

pub(super) fn put_when(body: &mut Value, when: When) {
    match when {
        When::After(delay) => body["delay_ms"] = span_ms(delay).into(),
        When::At(time) => body["at_ms"] = at_ms(time).into(),
    }
}

/// A text is written as it is, but for one with a zero, which the database has no text for.
pub(super) fn put_message(body: &mut Value, message: &[u8]) {
    match std::str::from_utf8(message) {
        Ok(text) if !text.contains('\0') => body["message"] = text.into(),
        _ => body["message_base64"] = BASE64_STANDARD.encode(message).into(),
    }
}

fn at_ms(time: Timestamp) -> i64 {
    time.as_millis().max(FIRST_MS)
}

/// A span as stores count it: a part of a millisecond is a whole one.
fn span_ms(span: Duration) -> i64 {
    Timestamp::ZERO.plus(span).as_millis()
}
