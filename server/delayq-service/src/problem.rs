//! Errors as RFC 9457 problem details.

use std::fmt;

use axum::Json;
use axum::http::header::{CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use delayq_plugin::Error;
use serde::Serialize;
use utoipa::ToSchema;

/// The prefix of every problem type.
const TYPE: &str = "urn:delayq:problem:";

/// The reason why a request was not fulfilled (RFC 9457).
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct Problem {
    /// The kind of problem, which never changes its meaning: `urn:delayq:problem:` and a name.
    #[serde(rename = "type")]
    kind: String,
    /// The kind in a few words.
    title: &'static str,
    /// The status code of the answer.
    status: u16,
    /// What is wrong with this request, and what to change.
    detail: String,
    /// True if the same request can be repeated: it was certainly not applied, or repeating it is
    /// harmless.
    is_repeatable: bool,
    /// The number of seconds to wait before repeating it.
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_after: Option<u64>,
    /// The store error that caused the problem.
    #[serde(skip)]
    cause: Option<Box<Error>>,
}

impl Problem {
    fn new(status: StatusCode, kind: &str, title: &'static str, detail: impl Into<String>) -> Self {
        Self {
            kind: format!("{TYPE}{kind}"),
            title,
            status: status.as_u16(),
            detail: detail.into(),
            is_repeatable: false,
            retry_after: None,
            cause: None,
        }
    }

    fn repeatable(mut self, after: Option<u64>) -> Self {
        self.is_repeatable = true;
        self.retry_after = after;
        self
    }

    /// The request cannot be parsed or is invalid.
    pub fn bad_request(detail: impl Into<String>) -> Self {
        let title = "the request is not understood";
        Self::new(StatusCode::BAD_REQUEST, "bad-request", title, detail)
    }

    /// A limit is exceeded.
    pub fn too_large(detail: impl Into<String>) -> Self {
        let title = "a limit is exceeded";
        Self::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            "limit-exceeded",
            title,
            detail,
        )
    }

    /// The token is missing or unknown.
    pub fn unauthorized(detail: impl Into<String>) -> Self {
        let title = "no valid token";
        Self::new(StatusCode::UNAUTHORIZED, "unauthorized", title, detail)
    }

    /// The token has no right to do this.
    pub fn forbidden(detail: impl Into<String>) -> Self {
        let title = "the token may not do that";
        Self::new(StatusCode::FORBIDDEN, "forbidden", title, detail)
    }

    /// The requested thing does not exist.
    pub fn not_found(detail: impl Into<String>) -> Self {
        let title = "there is no such thing";
        Self::new(StatusCode::NOT_FOUND, "not-found", title, detail)
    }

    /// The path is that of no route, whatever it names.
    pub fn no_route(detail: impl Into<String>) -> Self {
        let title = "there is no such route";
        Self::new(StatusCode::NOT_FOUND, "no-route", title, detail)
    }

    /// The server keeps no history, so it knows nothing of any task that is forgotten.
    pub fn no_history(detail: impl Into<String>) -> Self {
        let title = "this server keeps no history";
        Self::new(StatusCode::NOT_FOUND, "no-history", title, detail)
    }

    /// True if the requested thing does not exist.
    pub fn is_not_found(&self) -> bool {
        self.status == StatusCode::NOT_FOUND.as_u16()
    }

    /// The current state does not allow the request.
    pub fn conflict(kind: &str, detail: impl Into<String>) -> Self {
        let title = "the present state does not allow it";
        Self::new(StatusCode::CONFLICT, kind, title, detail)
    }

    /// The error of a route that makes a type that is not listed with `create=true`.
    pub fn or_create(error: Error) -> Self {
        let is_unknown = matches!(error, Error::UnknownType { .. });
        let detail = error.to_string();
        let problem = Self::from(error);
        if is_unknown {
            return problem.saying(format!("{detail}; create=true makes it"));
        }
        problem
    }

    /// The move of a namespace was refused or failed.
    pub fn of_move(error: Error) -> Self {
        match error {
            Error::InvalidInput { .. } => Self::conflict("move", error.to_string()),
            other => other.into(),
        }
    }

    /// The task being waited for is dead.
    pub fn dead(detail: impl Into<String>) -> Self {
        let status = StatusCode::FAILED_DEPENDENCY;
        Self::new(status, "dead", "the task is dead", detail)
    }

    /// The task being waited for has ended and will never run.
    pub fn gone(kind: &str, detail: impl Into<String>) -> Self {
        Self::new(StatusCode::GONE, kind, "the task never runs", detail)
    }

    /// Replaces the detail text.
    pub fn saying(mut self, detail: String) -> Self {
        self.detail = detail;
        self
    }

    /// The request cannot be fulfilled now.
    pub fn unavailable(detail: impl Into<String>) -> Self {
        let title = "it cannot be done now";
        let status = StatusCode::SERVICE_UNAVAILABLE;
        Self::new(status, "unavailable", title, detail).repeatable(Some(1))
    }

    /// The rate of requests is above the limit.
    pub fn too_many_requests(detail: impl Into<String>, after: u64) -> Self {
        let status = StatusCode::TOO_MANY_REQUESTS;
        let title = "too many requests";
        Self::new(status, "rate-limited", title, detail).repeatable(Some(after))
    }

    /// The namespace has more unfinished tasks than allowed.
    pub fn namespace_full(detail: impl Into<String>) -> Self {
        let status = StatusCode::TOO_MANY_REQUESTS;
        let title = "the namespace is full";
        Self::new(status, "namespace-full", title, detail).repeatable(Some(1))
    }

    /// The types of the token have more unfinished tasks than the token allows.
    pub fn token_full(detail: impl Into<String>) -> Self {
        let status = StatusCode::TOO_MANY_REQUESTS;
        let title = "the token has no room";
        Self::new(status, "token-full", title, detail).repeatable(Some(1))
    }

    /// The server is not ready.
    pub fn not_ready(detail: impl Into<String>) -> Self {
        let status = StatusCode::SERVICE_UNAVAILABLE;
        Self::new(status, "not-ready", "the server is not ready", detail).repeatable(Some(1))
    }

    /// The request did not arrive in time.
    pub fn too_slow(detail: impl Into<String>) -> Self {
        let status = StatusCode::REQUEST_TIMEOUT;
        Self::new(status, "too-slow", "the request took too long", detail).repeatable(None)
    }

    /// The path does not support the method.
    pub fn method_not_allowed(detail: impl Into<String>) -> Self {
        let status = StatusCode::METHOD_NOT_ALLOWED;
        let title = "the path has no such method";
        Self::new(status, "method-not-allowed", title, detail)
    }

    /// The store error that caused the problem, if any.
    pub fn cause(&self) -> Option<&Error> {
        self.cause.as_deref()
    }

    /// Converts the problem to a store error, for entries that answer with one.
    pub fn to_error(&self) -> Error {
        match (self.cause(), self.status()) {
            (Some(error), _) => error.clone(),
            (None, StatusCode::TOO_MANY_REQUESTS) => Error::full("the namespace", self.to_string()),
            _ => Error::unavailable("the store of the server", self.to_string()),
        }
    }

    /// Removes the cause, for a problem found before anything was done.
    pub fn without_cause(mut self) -> Self {
        self.cause = None;
        self
    }

    /// The task does not exist.
    pub fn no_task(task_type: &str, id: &str) -> Self {
        Self::not_found(format!("there is no task {id} of type {task_type}"))
    }

    /// The same problem, with more of its detail.
    pub(crate) fn with_detail(mut self, more: &str) -> Self {
        self.detail.push_str(more);
        self
    }

    /// The number of seconds to wait before a repetition, if known.
    pub fn retry_after(&self) -> Option<u64> {
        self.retry_after
    }

    /// The status code.
    pub fn status(&self) -> StatusCode {
        StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
    }

    /// Converts a store error to a problem.
    fn of_error(error: Error) -> Self {
        let detail = error.to_string();
        let problem = |status, kind, title| Self::new(status, kind, title, detail.clone());
        match error {
            Error::InvalidName { .. } | Error::InvalidInput { .. } => Self::bad_request(detail),
            Error::LimitExceeded { .. } => Self::too_large(detail),
            Error::Conflict {
                task_type,
                id,
                state,
            } => {
                let text = format!(
                    "another task {id} of {task_type} is {state}: use another id, or \
                     on_conflict=keep or replace, or again_if_running=true for one that runs"
                );
                Self::conflict("conflict", text)
            }
            Error::UnknownType { .. } => problem(
                StatusCode::NOT_FOUND,
                "unknown-type",
                "there is no such type",
            ),
            Error::TypeInUse { .. } => Self::conflict("type-in-use", detail),
            Error::FleetLimitOnShards { .. } => Self::conflict("fleet-limit-on-shards", detail),
            Error::QueueFull { .. } => {
                let status = StatusCode::TOO_MANY_REQUESTS;
                problem(status, "queue-full", "the type is full").repeatable(Some(1))
            }
            Error::Full { .. } => {
                let status = StatusCode::INSUFFICIENT_STORAGE;
                problem(status, "store-full", "the store is full").repeatable(Some(10))
            }
            Error::Unavailable { .. } | Error::ReadOnly { .. } | Error::Closed(_) => {
                let status = StatusCode::SERVICE_UNAVAILABLE;
                problem(status, "unavailable", "the store is not reached").repeatable(Some(1))
            }
            Error::Indeterminate { .. } => {
                let status = StatusCode::GATEWAY_TIMEOUT;
                let title = "the store did not answer in time";
                problem(status, "in-doubt", title).repeatable(None)
            }
            Error::Unsupported(_) => {
                let status = StatusCode::NOT_IMPLEMENTED;
                problem(status, "unsupported", "the store does not have that")
            }
            _ => {
                tracing::error!(error = detail, "a request failed in the store");
                let status = StatusCode::INTERNAL_SERVER_ERROR;
                problem(status, "store-error", "the store cannot be used as it is")
            }
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.detail)
    }
}

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        let cause = Box::new(error.clone());
        let mut problem = Self::of_error(error);
        problem.cause = Some(cause);
        problem
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let (status, after) = (self.status(), self.retry_after);
        let mut response = (status, Json(self)).into_response();
        let headers = response.headers_mut();
        let json = HeaderValue::from_static("application/problem+json");
        headers.insert(CONTENT_TYPE, json);
        if let Some(after) = after {
            headers.insert(RETRY_AFTER, HeaderValue::from(after));
        }
        if status == StatusCode::UNAUTHORIZED {
            headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}
