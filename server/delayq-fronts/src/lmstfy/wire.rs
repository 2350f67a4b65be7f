//! Requests and answers in the format of the original.

use std::time::Duration;

use axum::body::Body;
use axum::http::header::{CONTENT_TYPE, LOCATION, RETRY_AFTER};
use axum::http::{HeaderValue, Method, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use delayq_service::problem::Problem;
use serde::Serialize;
use serde_json::json;
use url::form_urlencoded;

use super::job::NewJob;
use super::limits::Action;
use super::names::{MAX_NAME_BYTES, is_name, is_word};

/// The default lifetime of a job, in seconds: a day.
const TTL: u32 = 86_400;
/// The default time to run, in seconds: a minute.
const TTR: u32 = 60;
/// The largest number of jobs in one consumer request.
const MAX_COUNT: u32 = 100;

/// An operation of the API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operation {
    Publish,
    PublishAll,
    Republish,
    Consume,
    Peek,
    Job,
    Delete,
    Size,
    Destroy,
    Dead,
    DeadSize,
    Respawn,
    DeleteDead,
}

impl Operation {
    /// The operation for a method and the part of the path after the queue.
    fn of(method: &Method, tail: &[&str]) -> Option<Self> {
        Some(match (method.as_str(), tail) {
            ("PUT", []) => Self::Publish,
            ("GET", []) => Self::Consume,
            ("DELETE", []) => Self::Destroy,
            ("PUT", ["bulk"]) => Self::PublishAll,
            ("GET", ["peek"]) => Self::Peek,
            ("GET", ["size"]) => Self::Size,
            ("GET", ["deadletter"]) => Self::Dead,
            ("PUT", ["deadletter"]) => Self::Respawn,
            ("DELETE", ["deadletter"]) => Self::DeleteDead,
            ("GET", ["deadletter", "size"]) => Self::DeadSize,
            (_, ["job", ""]) => return None,
            ("PUT", ["job", _]) => Self::Republish,
            ("GET", ["job", _]) => Self::Job,
            ("DELETE", ["job", _]) => Self::Delete,
            _ => return None,
        })
    }

    /// Returns true if the operation needs no token.
    pub(super) fn is_public(self) -> bool {
        matches!(self, Self::Size | Self::DeadSize)
    }

    /// The kind of request that a token's limit counts.
    pub(super) fn action(self) -> Option<Action> {
        match self {
            Self::Publish | Self::PublishAll => Some(Action::Produce),
            Self::Consume => Some(Action::Consume),
            _ => None,
        }
    }

    /// The path as a metric label.
    pub(super) fn path(self) -> &'static str {
        match self {
            Self::Publish | Self::Consume | Self::Destroy => "/api/:namespace/:queue",
            Self::PublishAll => "/api/:namespace/:queue/bulk",
            Self::Peek => "/api/:namespace/:queue/peek",
            Self::Size => "/api/:namespace/:queue/size",
            Self::Dead | Self::Respawn | Self::DeleteDead => "/api/:namespace/:queue/deadletter",
            Self::DeadSize => "/api/:namespace/:queue/deadletter/size",
            Self::Republish | Self::Job | Self::Delete => "/api/:namespace/:queue/job/:job_id",
        }
    }
}

/// Parses a path into operation, namespace and queue.
pub(super) fn read_path<'a>(
    method: &Method,
    path: &'a str,
) -> Result<(Operation, &'a str, &'a str), Refused> {
    let parts = path.strip_prefix("/api/").ok_or_else(no_such_path)?;
    let parts: Vec<_> = parts.split('/').collect();
    let [namespace, queue, tail @ ..] = parts.as_slice() else {
        return Err(no_such_path());
    };
    if queue.is_empty() && !namespace.is_empty() && tail.is_empty() {
        return Err(moved(&format!("/api/{namespace}")).into());
    }
    if namespace.is_empty() || queue.is_empty() {
        return Err(no_such_path());
    }
    let operation = Operation::of(method, tail).ok_or_else(no_such_path)?;
    Ok((operation, namespace, queue))
}

pub(super) fn check_names(
    operation: Operation,
    namespace: &str,
    queue: &str,
) -> Result<(), Refused> {
    let is_consume = operation == Operation::Consume;
    if !is_consume && (namespace.len() > MAX_NAME_BYTES || queue.len() > MAX_NAME_BYTES) {
        return Err(bad("namespace or queue name too long"));
    }
    if !is_name(namespace) {
        return Err(bad("namespace name contains forbidden characters"));
    }
    let is_queue = if is_consume {
        queue.bytes().all(|byte| is_word(byte) || byte == b',')
    } else {
        is_name(queue) && !queue.starts_with('_')
    };
    if !is_queue {
        return Err(bad("queue name contains forbidden characters"));
    }
    Ok(())
}

/// Names and values. The first value of a name counts.
#[derive(Clone, Debug, Default)]
pub(super) struct Params(Vec<(String, String)>);

impl Params {
    /// The parameters of a query.
    pub(super) fn of(uri: &Uri) -> Self {
        Self::read(uri.query().unwrap_or_default().as_bytes())
    }

    /// The parameters of a form.
    pub(super) fn read(text: &[u8]) -> Self {
        let pairs = form_urlencoded::parse(text).into_owned();
        Self(pairs.collect())
    }

    /// Appends other parameters.
    pub(super) fn and(mut self, others: Self) -> Self {
        self.0.extend(others.0);
        self
    }

    pub(super) fn get(&self, name: &str) -> Option<&str> {
        let mut named = self.0.iter().filter(|(one, _)| one == name);
        named.next().map(|(_, value)| value.as_str())
    }

    /// The value of a parameter; empty if absent.
    pub(super) fn text(&self, name: &str) -> &str {
        self.get(name).unwrap_or_default()
    }

    /// A number of seconds or tries.
    fn number(&self, name: &str, default: u32) -> Result<u32, Refused> {
        let Some(text) = self.get(name) else {
            return Ok(default);
        };
        let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let number = text.parse().ok().filter(|_| is_number);
        number.ok_or_else(|| bad(&format!("invalid {name}")))
    }

    fn seconds(&self, name: &str, default: u32) -> Result<Duration, Refused> {
        let seconds = self.number(name, default)?;
        Ok(Duration::from_secs(u64::from(seconds)))
    }

    /// The options of a new job, without attributes.
    pub(super) fn new_job(&self) -> Result<NewJob, Refused> {
        let delay = self.seconds("delay", 0)?;
        let ttl = self.seconds("ttl", TTL)?;
        if !ttl.is_zero() && ttl < delay {
            return Err(bad("ttl is shorter than delay"));
        }
        let tries = self.number("tries", 1)?;
        let tries = u16::try_from(tries).map_err(|_| bad("invalid tries"))?;
        if tries == 0 {
            return Err(bad("tries shouldn't be zero"));
        }
        Ok(NewJob {
            delay,
            ttl,
            tries: u32::from(tries),
            attributes: std::collections::BTreeMap::new(),
        })
    }

    pub(super) fn ttr(&self) -> Result<Duration, Refused> {
        self.seconds("ttr", TTR)
    }

    pub(super) fn timeout(&self) -> Result<Duration, Refused> {
        self.seconds("timeout", 0)
    }

    /// The number of jobs that a consumer wants.
    pub(super) fn count(&self) -> Result<usize, Refused> {
        let count = self.number("count", 1)?;
        if !(1..=MAX_COUNT).contains(&count) {
            return Err(bad("invalid count"));
        }
        Ok(count as usize)
    }

    /// The number of dead letters to handle.
    pub(super) fn limit(&self) -> Result<usize, Refused> {
        let limit: Option<i64> = self.get("limit").map_or(Some(1), |text| text.parse().ok());
        let limit = limit.filter(|limit| *limit > 0);
        let limit = limit.ok_or_else(|| bad("invalid limit"))?;
        Ok(usize::try_from(limit).unwrap_or(usize::MAX))
    }

    /// The time to live of respawned jobs.
    pub(super) fn respawn_ttl(&self) -> Result<Duration, Refused> {
        let ttl: Option<i64> = self
            .get("ttl")
            .map_or(Some(i64::from(TTL)), |text| text.parse().ok());
        let ttl = ttl.and_then(|ttl| u64::try_from(ttl).ok());
        let ttl = ttl.ok_or_else(|| bad("invalid ttl"))?;
        Ok(Duration::from_secs(ttl))
    }

    /// Returns true if the attempt does not count.
    pub(super) fn is_frozen(&self) -> bool {
        let text = self.text("freeze_tries");
        matches!(text, "1" | "t" | "T" | "TRUE" | "true" | "True")
    }
}

/// The content type of JSON answers.
const JSON: HeaderValue = HeaderValue::from_static("application/json; charset=utf-8");
/// The error text for a fault of the server.
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

/// A JSON answer.
pub(super) fn answer(status: StatusCode, body: &impl Serialize) -> Response {
    text(
        status,
        JSON,
        serde_json::to_string(body).unwrap_or_default(),
    )
}

/// An indented JSON answer, as the admin API gives it.
pub(super) fn indented(status: StatusCode, body: &impl Serialize) -> Response {
    text(status, JSON, pretty(body))
}

/// Indented JSON.
pub(super) fn pretty(body: &impl Serialize) -> String {
    let mut out = Vec::new();
    let form = serde_json::ser::PrettyFormatter::with_indent(b"    ");
    let mut writer = serde_json::Serializer::with_formatter(&mut out, form);
    body.serialize(&mut writer).ok();
    String::from_utf8(out).unwrap_or_default()
}

/// A text answer.
pub(super) fn text(status: StatusCode, kind: HeaderValue, body: String) -> Response {
    let mut response = (status, Body::from(body)).into_response();
    response.headers_mut().insert(CONTENT_TYPE, kind);
    response
}

/// A refusal.
pub(super) fn refused(status: StatusCode, error: &str) -> Refused {
    answer(status, &json!({ "error": error })).into()
}

/// The refusal of a body that was not read.
pub(super) fn unread(problem: &Problem) -> Refused {
    let body = json!({ "error": problem.to_string() });
    let mut response = answer(problem.status(), &body);
    if let Some(seconds) = problem.retry_after() {
        let after = HeaderValue::from(seconds);
        response.headers_mut().insert(RETRY_AFTER, after);
    }
    response.into()
}

/// A redirect to another path.
pub(super) fn moved(path: &str) -> Response {
    let kind = HeaderValue::from_static("text/html; charset=utf-8");
    let body = format!("<a href=\"{path}\">Moved Permanently</a>.\n\n");
    let mut response = text(StatusCode::MOVED_PERMANENTLY, kind, body);
    if let Ok(path) = HeaderValue::from_str(path) {
        response.headers_mut().insert(LOCATION, path);
    }
    response
}

/// The answer to an invalid request.
pub(super) fn bad(error: &str) -> Refused {
    refused(StatusCode::BAD_REQUEST, error)
}

/// The answer to an unknown path.
fn no_such_path() -> Refused {
    refused(StatusCode::NOT_FOUND, "api not found")
}

/// The answer to a failed store call. The reason is logged.
pub(super) fn failed(error: &dyn std::fmt::Display) -> Refused {
    tracing::warn!(%error, "a request of the lmstfy API failed");
    refused(StatusCode::INTERNAL_SERVER_ERROR, INTERNAL)
}

/// An empty answer.
pub(super) fn empty(status: StatusCode) -> Response {
    status.into_response()
}
