//! Answers in the form of the original.

use axum::body::Body;
use axum::http::header::{CONTENT_TYPE, LOCATION};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use serde_json::json;

/// What every answer of JSON says of itself.
const JSON: HeaderValue = HeaderValue::from_static("application/json; charset=utf-8");
/// What is said where the fault is the server's.
const INTERNAL: &str = "internal error";

/// An answer that ends a request early.
#[derive(Debug)]
pub(super) struct Refused(Box<Response>);

impl From<Response> for Refused {
    fn from(response: Response) -> Self {
        Self(Box::new(response))
    }
}

impl Refused {
    pub(super) fn response(&self) -> &Response {
        &self.0
    }

    pub(super) fn into_response(self) -> Response {
        *self.0
    }
}

/// An answer of JSON.
pub(super) fn answer(status: StatusCode, body: &impl Serialize) -> Response {
    text(
        status,
        JSON,
        serde_json::to_string(body).unwrap_or_default(),
    )
}

/// An answer of JSON for people, as the administration gives it.
pub(super) fn indented(status: StatusCode, body: &impl Serialize) -> Response {
    text(status, JSON, pretty(body))
}

/// JSON for people.
pub(super) fn pretty(body: &impl Serialize) -> String {
    let mut out = Vec::new();
    let form = serde_json::ser::PrettyFormatter::with_indent(b"    ");
    let mut writer = serde_json::Serializer::with_formatter(&mut out, form);
    body.serialize(&mut writer).ok();
    String::from_utf8(out).unwrap_or_default()
}

/// An answer of some text.
pub(super) fn text(status: StatusCode, kind: HeaderValue, body: String) -> Response {
    let mut response = (status, Body::from(body)).into_response();
    response.headers_mut().insert(CONTENT_TYPE, kind);
    response
}

/// A refusal.
pub(super) fn refused(status: StatusCode, error: &str) -> Refused {
    answer(status, &json!({ "error": error })).into()
}

/// The same request is at another path.
pub(super) fn moved(path: &str) -> Response {
    let kind = HeaderValue::from_static("text/html; charset=utf-8");
    let body = format!("<a href=\"{path}\">Moved Permanently</a>.\n\n");
    let mut response = text(StatusCode::MOVED_PERMANENTLY, kind, body);
    if let Ok(path) = HeaderValue::from_str(path) {
        response.headers_mut().insert(LOCATION, path);
    }
    response
}

/// The request is not understood.
pub(super) fn bad(error: &str) -> Refused {
    refused(StatusCode::BAD_REQUEST, error)
}

/// No path of the API.
pub(super) fn no_such_path() -> Refused {
    refused(StatusCode::NOT_FOUND, "api not found")
}

/// A store failed; why stands in the log.
pub(super) fn failed(error: &dyn std::fmt::Display) -> Refused {
    tracing::warn!(%error, "a request of the API of lmstfy failed");
    refused(StatusCode::INTERNAL_SERVER_ERROR, INTERNAL)
}

/// Done, and nothing to say.
pub(super) fn empty(status: StatusCode) -> Response {
    status.into_response()
}
