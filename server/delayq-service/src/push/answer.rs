//! The answer of a target, and its meaning for the task.

use std::time::Duration;

use axum::http::header::{CONTENT_TYPE, RETRY_AFTER};
use axum::http::{HeaderMap, StatusCode};
use delayq_plugin::store::Reply;
use delayq_plugin::{Clock, SystemClock, TaskError, TaskResult};

/// The shortest and the longest wait that a target may request.
const SHORTEST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_hours(1);
/// The number of characters of an answer that an error quotes.
const SHOWN_CHARS: usize = 200;

/// An HTTP answer.
#[derive(Debug)]
pub(super) struct HttpAnswer {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    /// The beginning of the body, up to the limit.
    pub(super) body: Vec<u8>,
    /// True if the body was longer than the limit.
    pub(super) is_cut: bool,
}

impl HttpAnswer {
    /// The end of the attempt: 2xx is done, 410 is dead, 429 and 503 retry after the wait that they
    /// request, and all others follow the retry policy. `place` names the target in errors.
    pub(super) fn verdict(&self, place: &str) -> TaskResult {
        let status = self.status;
        if status.is_success() {
            return Ok(());
        }
        let body = shown(&String::from_utf8_lossy(&self.body));
        let error = match body.as_str() {
            "" => format!("{place} answered {status}"),
            body => format!("{place} answered {status}: {body}"),
        };
        match status {
            StatusCode::GONE => Err(TaskError::dead(error)),
            StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE => {
                Err(match self.retry_after() {
                    Some(wait) => TaskError::retry_after(wait, error),
                    None => TaskError::retry(error),
                })
            }
            _ if status.is_redirection() => Err(TaskError::retry(format!(
                "{error} (redirects are not followed: give the target its own URL)"
            ))),
            _ => Err(TaskError::retry(error)),
        }
    }

    /// The reply for callers that wait for the task; `None` if the body is empty or too long to be
    /// kept whole.
    pub(super) fn reply(&self) -> Option<Reply> {
        if self.body.is_empty() || self.is_cut {
            return None;
        }
        let plain = Reply::bytes(self.body.clone());
        let content_type = self
            .headers
            .get(CONTENT_TYPE)
            .and_then(|one| one.to_str().ok());
        let typed = content_type.map(|known| plain.clone().content_type(known));
        Some(typed.filter(|reply| reply.check().is_ok()).unwrap_or(plain))
    }

    /// The requested wait, in seconds or until a date.
    fn retry_after(&self) -> Option<Duration> {
        let text = self.headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
        let wait = if let Ok(seconds) = text.parse() {
            Duration::from_secs(seconds)
        } else {
            let date = httpdate::parse_http_date(text).ok()?;
            let since = date.duration_since(std::time::UNIX_EPOCH).ok()?;
            let now = u64::try_from(SystemClock.now().as_millis()).ok()?;
            since.saturating_sub(Duration::from_millis(now))
        };
        Some(wait.clamp(SHORTEST, LONGEST))
    }
}

/// Makes a foreign text safe for an error: its beginning, in one line.
pub(super) fn shown(text: &str) -> String {
    let mut chars = text.trim().chars();
    let one_line = |c: char| if c.is_control() { ' ' } else { c };
    let mut shown: String = chars.by_ref().take(SHOWN_CHARS).map(one_line).collect();
    if chars.next().is_some() {
        shown.push_str("..");
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(status: u16, retry_after: Option<&str>) -> TaskResult {
        let mut headers = HeaderMap::new();
        if let Some(text) = retry_after {
            headers.insert(RETRY_AFTER, text.parse().unwrap());
        }
        let answer = HttpAnswer {
            status: StatusCode::from_u16(status).unwrap(),
            headers,
            body: b"no\x1b[2Jway".to_vec(),
            is_cut: false,
        };
        answer.verdict("POST https://example.org/")
    }

    #[test]
    fn the_status_decides_what_becomes_of_the_task() {
        for done in [200, 201, 202, 204, 299] {
            assert!(answer(done, None).is_ok());
        }
        assert!(matches!(answer(410, Some("5")), Err(TaskError::Dead(_))));
        for again in [301, 400, 404, 500, 502, 429, 503] {
            let Err(TaskError::Retry(said)) = answer(again, None) else {
                panic!("{again}");
            };
            assert!(
                said.contains(&again.to_string()) && !said.contains('\x1b'),
                "{said}"
            );
        }
        // Of other answers nobody reads it.
        assert!(matches!(answer(500, Some("5")), Err(TaskError::Retry(_))));
    }

    #[test]
    fn a_wait_that_is_asked_for_is_bounded() {
        let wait = |text: &str| match answer(503, Some(text)) {
            Err(TaskError::RetryAfter(wait, _)) => Some(wait),
            _ => None,
        };
        assert_eq!(wait("7"), Some(Duration::from_secs(7)));
        assert_eq!(wait("0"), Some(SHORTEST));
        assert_eq!(wait("999999999"), Some(LONGEST));
        assert_eq!(wait("Wed, 21 Oct 2015 07:28:00 GMT"), Some(SHORTEST));
        assert_eq!(wait("Tue, 31 Dec 2999 23:59:59 GMT"), Some(LONGEST));
        assert_eq!(wait("soon"), None);
        assert_eq!(wait("-1"), None);
    }
}
