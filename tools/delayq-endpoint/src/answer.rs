//! Answers to a server.

use std::time::Duration;

use axum::body::Body;
use axum::http::header::{CONTENT_TYPE, RETRY_AFTER};
use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use delayq_core::Reply;
use delayq_core::store::AttemptEnd;
use delayq_plugin::AttemptResult;

/// What became of the task: `done`, `retry`, `dead`, `release`, or `refused` before it began.
const OUTCOME: HeaderName = HeaderName::from_static("delayq-outcome");
/// After how many milliseconds it is to be tried again.
const AFTER_MS: HeaderName = HeaderName::from_static("delayq-after-ms");

/// When the task is settled, if not by the answer: `later`.
const SETTLE: HeaderName = HeaderName::from_static("delayq-settle");

/// The answer when the workers of a task have ended.
pub(crate) fn ended(ended: AttemptResult) -> Response {
    match ended.end {
        AttemptEnd::Done if ended.is_open => later(),
        AttemptEnd::Done | AttemptEnd::Expired => done(ended.reply),
        AttemptEnd::Retry { after, error, .. } => {
            let failed = (StatusCode::INTERNAL_SERVER_ERROR, error).into_response();
            again(failed, "retry", after)
        }
        AttemptEnd::Release { after, .. } => {
            let busy = StatusCode::SERVICE_UNAVAILABLE.into_response();
            again(busy, "release", after)
        }
        AttemptEnd::Dead { error, .. } => said((StatusCode::GONE, error).into_response(), "dead"),
        // AttemptEnd may grow: what is not known here is no success.
        other => {
            let failed = (StatusCode::INTERNAL_SERVER_ERROR, format!("{other:?}"));
            said(failed.into_response(), "retry")
        }
    }
}

/// The answer to a call that did not begin: another instance may take it at once.
pub(crate) fn refused(status: StatusCode, reason: String) -> Response {
    said((status, reason).into_response(), "refused")
}

/// The same, for now.
pub(crate) fn busy(reason: &str) -> Response {
    let mut response = refused(StatusCode::SERVICE_UNAVAILABLE, reason.to_owned());
    let second = HeaderValue::from_static("1");
    response.headers_mut().insert(RETRY_AFTER, second);
    response
}

/// The answer to a task that is not to be tried elsewhere, nor here before `after`.
pub(crate) fn released(after: Duration, reason: &str) -> Response {
    let response = (StatusCode::SERVICE_UNAVAILABLE, reason.to_owned()).into_response();
    again(response, "release", after)
}

fn done(reply: Option<Reply>) -> Response {
    let Some(reply) = reply else {
        return said(StatusCode::NO_CONTENT.into_response(), "done");
    };
    let mut response = Response::new(Body::from(reply.body));
    if let Ok(content_type) = HeaderValue::from_str(&reply.content_type) {
        response.headers_mut().insert(CONTENT_TYPE, content_type);
    }
    said(response, "done")
}

fn later() -> Response {
    let mut response = StatusCode::ACCEPTED.into_response();
    let later = HeaderValue::from_static("later");
    response.headers_mut().insert(SETTLE, later);
    response
}

fn again(mut response: Response, outcome: &'static str, after: Duration) -> Response {
    let ms = u64::try_from(after.as_millis()).unwrap_or(u64::MAX);
    response.headers_mut().insert(AFTER_MS, ms.into());
    said(response, outcome)
}

fn said(mut response: Response, outcome: &'static str) -> Response {
    let outcome = HeaderValue::from_static(outcome);
    response.headers_mut().insert(OUTCOME, outcome);
    response
}
