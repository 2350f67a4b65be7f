//! Errors in the format of a Spring application.

use axum::extract::OriginalUri;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use delayq_plugin::{Clock, SystemClock};
use delayq_service::problem::Problem;
use serde_json::json;

/// An error with its path.
#[derive(Debug)]
pub(super) struct SpringError {
    path: String,
    status: StatusCode,
    message: String,
    /// The headers of the server's own answer, which say when to retry.
    headers: axum::http::HeaderMap,
}

impl SpringError {
    pub(super) fn new(path: &str, status: StatusCode, message: impl Into<String>) -> Self {
        Self {
            path: path.to_owned(),
            status,
            message: message.into(),
            headers: axum::http::HeaderMap::new(),
        }
    }

    /// Converts a problem of the server.
    pub(super) fn of(path: &str, problem: Problem) -> Self {
        let message = problem.to_string();
        let response = problem.into_response();
        let mut headers = response.headers().clone();
        headers.remove(header::CONTENT_TYPE);
        headers.remove(header::CONTENT_LENGTH);
        Self {
            path: path.to_owned(),
            status: response.status(),
            message,
            headers,
        }
    }
}

impl IntoResponse for SpringError {
    fn into_response(self) -> Response {
        let now = SystemClock.now().to_string().replace('Z', "+00:00");
        let body = json!({
            "timestamp": now,
            "status": self.status.as_u16(),
            "error": self.status.canonical_reason().unwrap_or_default(),
            "message": self.message,
            "path": self.path,
        });
        let json = HeaderValue::from_static("application/json");
        let mut response = (self.status, body.to_string()).into_response();
        response.headers_mut().extend(self.headers);
        response.headers_mut().insert(header::CONTENT_TYPE, json);
        response
    }
}

pub(super) async fn not_found(OriginalUri(uri): OriginalUri) -> SpringError {
    SpringError::new(&shown(uri.path()), StatusCode::NOT_FOUND, "")
}

pub(super) async fn method_not_allowed(OriginalUri(uri): OriginalUri) -> SpringError {
    SpringError::new(&shown(uri.path()), StatusCode::METHOD_NOT_ALLOWED, "")
}

/// The path without a leading `/token/TOKEN`.
pub(super) fn shown(path: &str) -> String {
    let rest = path
        .strip_prefix("/token/")
        .map(|rest| rest.split_once('/'));
    match rest {
        Some(rest) => format!("/{}", rest.map_or("", |(_, rest)| rest)),
        None => path.to_owned(),
    }
}
