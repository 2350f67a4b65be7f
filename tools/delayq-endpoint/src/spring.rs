//! The message of the Spring delay queue.

mod lenient;

use std::borrow::Cow;
use std::fmt::Write;

use delayq_core::{TaskId, TaskType, Timestamp};
use serde::{Deserialize, Serialize};

use crate::call::Invocation;

/// A task as the Spring delay queue sends it, to its server and to applications.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[non_exhaustive]
pub struct SpringJob {
    /// The id of the task. The original takes a number or a truth value for a text, as Jackson
    /// does.
    #[serde(deserialize_with = "lenient::text")]
    pub task_id: Option<String>,
    /// Its type, within the application.
    #[serde(deserialize_with = "lenient::text")]
    pub task_type: Option<String>,
    /// When it is due, in milliseconds since the epoch; 0 and less mean now.
    #[serde(deserialize_with = "lenient::whole")]
    pub delay_time: i64,
    /// The message.
    #[serde(
        deserialize_with = "lenient::text",
        skip_serializing_if = "Option::is_none"
    )]
    pub params: Option<String>,
    /// The application that serves it.
    #[serde(
        deserialize_with = "lenient::text",
        skip_serializing_if = "Option::is_none"
    )]
    pub app_name: Option<String>,
}

/// The name of a type or an application as a part of a [`TaskType`], which has letters, digits,
/// and `.`, `_`, `-`, `:` only: any other byte is a colon and its two hexadecimal digits, so that
/// `prüfung` is `pr:c3:bcfung`.
#[must_use]
pub fn spelled_type(name: &str) -> Cow<'_, str> {
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || b"._-:".contains(&byte);
    spelled(name, is_word, ':')
}

/// The id of a task as a [`TaskId`], which has visible ASCII characters only: any other byte is a
/// percent sign and its two hexadecimal digits.
#[must_use]
pub fn spelled_id(id: &str) -> Cow<'_, str> {
    spelled(id, |byte| byte.is_ascii_graphic(), '%')
}

fn spelled(text: &str, is_kept: impl Fn(u8) -> bool, escape: char) -> Cow<'_, str> {
    if text.bytes().all(&is_kept) {
        return Cow::Borrowed(text);
    }
    let mut spelled = String::new();
    for byte in text.bytes() {
        if is_kept(byte) {
            spelled.push(char::from(byte));
        } else {
            // Writing to a String cannot fail.
            let _ = write!(spelled, "{escape}{byte:02x}");
        }
    }
    Cow::Owned(spelled)
}

impl SpringJob {
    /// The call that it is, to the worker of its type.
    pub(crate) fn into_call(self) -> Result<Invocation, String> {
        let task_type = TaskType::new(spelled_type(&self.task_type.unwrap_or_default()))
            .map_err(|error| format!("taskType: {error}"))?;
        let id = TaskId::new(spelled_id(&self.task_id.unwrap_or_default()))
            .map_err(|error| format!("taskId: {error}"))?;
        let message = self.params.unwrap_or_default().into_bytes();
        Ok(Invocation::of(task_type, id, message).due_at(Timestamp::from_millis(self.delay_time)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_jackson_takes_is_taken() {
        let read = |body: &str| serde_json::from_str::<SpringJob>(body);
        let job = read(r#"{"taskId":42,"taskType":true,"delayTime":"17","params":null}"#).unwrap();
        assert_eq!(job.task_id.as_deref(), Some("42"));
        assert_eq!(job.task_type.as_deref(), Some("true"));
        assert_eq!((job.delay_time, job.params), (17, None));
        for (time, wanted) in [
            ("0", 0),
            ("-5", -5),
            ("1.0e3", 1_000),
            ("2.9", 2),
            ("null", 0),
        ] {
            let job = read(&format!(r#"{{"delayTime":{time}}}"#)).unwrap();
            assert_eq!(job.delay_time, wanted, "{time}");
        }
        for bad in [
            r#"{"taskId":[1]}"#,
            r#"{"delayTime":"soon"}"#,
            r#"{"delayTime":1e300}"#,
        ] {
            assert!(read(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_name_beyond_ascii_is_spelled() {
        assert_eq!(spelled_type("prüfung a"), "pr:c3:bcfung:20a");
        assert_eq!(spelled_id("bestellung ü%"), "bestellung%20%c3%bc%");
        assert!(matches!(spelled_id("order/42"), Cow::Borrowed("order/42")));
    }
}
