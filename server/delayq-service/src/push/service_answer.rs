//! Answer of an instance, and what it means.

use std::time::Duration;

use axum::http::StatusCode;
use delayq_plugin::store::Reply;
use delayq_plugin::{TaskError, TaskResult};

use crate::discovery::Form;

use super::answer::{HttpAnswer, shown};

/// The header in which an instance says what became of the task.
const OUTCOME: &str = "delayq-outcome";
/// The header with the wait before the next attempt, in milliseconds.
const AFTER_MS: &str = "delayq-after-ms";
/// The header of a task that is settled by a later request.
const SETTLE: &str = "delayq-settle";
/// The longest wait that an instance may ask for.
const LONGEST: Duration = Duration::from_hours(24);

/// How a call ended.
#[derive(Debug)]
pub(super) enum Called {
    /// The attempt ended.
    Ended(TaskResult),
    /// It is done, and this is said to whoever waits for the task.
    Replied(Reply),
    /// The instance settles it by a request of its own.
    Later,
    /// It certainly did not begin.
    Refused {
        /// Why.
        error: String,
        /// When to ask again.
        after: Option<Duration>,
    },
    /// There was no connection: it certainly did not begin.
    Unreached(String),
    /// It may have begun, or may be done.
    InDoubt(String),
}

impl Called {
    /// The meaning of an answer. `place` says where it came from.
    pub(super) fn of(answer: &HttpAnswer, form: &Form, place: &str) -> Self {
        let header = |name: &str| answer.headers.get(name).and_then(|one| one.to_str().ok());
        let after = header(AFTER_MS).and_then(|text| text.parse().ok());
        let after = after.map(|ms| Duration::from_millis(ms).min(LONGEST));
        let body = shown(&String::from_utf8_lossy(&answer.body));
        let status = answer.status;
        let error = match body.as_str() {
            "" => format!("{place} answered {status}"),
            body => format!("{place} answered {status}: {body}"),
        };
        match header(OUTCOME) {
            Some("retry") => {
                return Self::Ended(Err(match after {
                    Some(after) => TaskError::retry_after(after, error),
                    None => TaskError::retry(error),
                }));
            }
            Some("release") => {
                let after = after.unwrap_or(Duration::from_secs(1));
                return Self::Ended(Err(TaskError::release(after)));
            }
            Some("dead") => return Self::Ended(Err(TaskError::dead(error))),
            Some("refused") => return Self::Refused { error, after },
            _ => {}
        }
        match status {
            StatusCode::ACCEPTED if header(SETTLE) == Some("later") => Self::Later,
            StatusCode::NOT_FOUND
            | StatusCode::MISDIRECTED_REQUEST
            | StatusCode::TOO_MANY_REQUESTS
            | StatusCode::SERVICE_UNAVAILABLE => Self::Refused { error, after },
            _ => match (answer.verdict(place), form) {
                (Err(error), _) => Self::Ended(Err(error)),
                // What the original says to every call is no reply of a worker.
                (Ok(()), Form::Spring { .. }) if answer.body == b"accepted" => Self::Ended(Ok(())),
                (Ok(()), _) => answer.reply().map_or(Self::Ended(Ok(())), Self::Replied),
            },
        }
    }
}
