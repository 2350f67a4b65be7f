//! Claims with a long poll.

use std::convert::Infallible;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::{FromRequestParts, Path, State};
use axum::http::header::{
    ACCEPT, CONTENT_LENGTH, CONTENT_SECURITY_POLICY, CONTENT_TYPE, X_CONTENT_TYPE_OPTIONS,
};
use axum::http::request::Parts;
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use delayq_plugin::{TaskType, Timestamp};
use delayq_service::access::Work;
use delayq_service::app::App;
use delayq_service::context::Allowed;
use delayq_service::problem::Problem;
use delayq_service::pull::{Asked, Handover, Pulled, lock_span};
use futures_util::stream;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::extract::Query;
use super::form::{MessageView, read_span};

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(claim))
}

/// The options of a claim.
#[derive(Clone, Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
struct ClaimQuery {
    /// The maximum number of tasks, 1 to 128; default 1.
    limit: Option<usize>,
    /// The time to wait for the first task: milliseconds, or a span such as `30s`; at most `60s`;
    /// default 0.
    wait: Option<String>,
    /// The lock time, `1s` to `24h`; default `30s`. A task whose lock expires goes to the next
    /// claim.
    lock_for: Option<String>,
    /// `listed` (default): tasks of the first listed type come first; `fair`: the types take turns
    /// at coming first.
    order: Option<String>,
}

/// Claimed tasks.
#[derive(Clone, Debug, Serialize, ToSchema)]
struct Claimed {
    /// In order of due time; empty if no task became due within the wait.
    tasks: Vec<ClaimedView>,
}

/// A claimed task. It is yours until `lock_until`.
#[derive(Clone, Debug, Serialize, ToSchema)]
struct ClaimedView {
    /// Its type.
    #[serde(rename = "type")]
    task_type: String,
    /// Its id.
    id: String,
    /// The lock, needed to settle, extend or release the task.
    lock: String,
    /// The fence of the lock, larger than that of every earlier lock of the task. Pass it to the
    /// systems that you write to, so that they can refuse a smaller fence than the last one.
    fence: u64,
    /// The time when the lock expires, by the store's clock.
    lock_until: i64,
    /// The number of the attempt, from 1.
    attempt: u32,
    /// The time when this attempt was due.
    due_at: i64,
    /// The time when the task was accepted.
    submitted_at: i64,
    /// The time when the task expires.
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_at: Option<i64>,
    #[serde(flatten)]
    message: MessageView,
    /// The headers.
    headers: std::collections::BTreeMap<String, String>,
    /// The error of the previous attempt.
    #[serde(skip_serializing_if = "Option::is_none")]
    last_error: Option<String>,
}

impl From<&Pulled> for ClaimedView {
    fn from(pulled: &Pulled) -> Self {
        let task = &pulled.task;
        Self {
            task_type: pulled.task_type().to_string(),
            id: task.lock.id.to_string(),
            lock: pulled.lock().to_string(),
            fence: task.lock.fence,
            lock_until: task.lock_until.as_millis(),
            attempt: task.attempt,
            due_at: task.due_at.as_millis(),
            submitted_at: task.submitted_at.as_millis(),
            expires_at: task.expires_at.map(Timestamp::as_millis),
            message: MessageView::new(Some(task.message.clone())),
            headers: task.headers.clone(),
            last_error: task.history.last_error.clone(),
        }
    }
}

/// Parses a lock time.
pub(super) fn read_lock_for(text: Option<&str>) -> Result<Duration, Problem> {
    lock_span(text.map(read_span).transpose()?)
}

/// Claim due tasks, of one type or of several.
///
/// `types` is one type, or several separated by commas. A client that disconnects while it waits
/// costs no attempt and delays no task. Repeating the call after a lost answer claims other tasks;
/// those in the lost answer run again once their locks have expired.
///
/// With `Accept: application/octet-stream` and `limit=1`, the answer is the raw message with its
/// sender's content type. The headers `Delayq-Type`, `Delayq-Id`, `Delayq-Lock`, `Delayq-Attempt`
/// and `Delayq-Header-NAME` describe the task. The answer is 204 if no task became due.
#[utoipa::path(
    post, path = "/v1/{namespace}/types/{types}/claim", tag = "work",
    params(("namespace", description = "Namespace"), ("types", description = "Types, with commas between them"), ClaimQuery),
    responses((status = 200, body = Claimed), (status = 204, description = "None, where the message itself was asked for"), (status = "4XX", body = Problem), (status = "5XX", body = Problem)),
    security(("token" = ["work"]))
)]
async fn claim(
    allowed: Allowed<Work>,
    Path((_, types)): Path<(String, String)>,
    State(app): State<App>,
    Query(claim): Query<ClaimQuery>,
    IsRaw(is_raw): IsRaw,
) -> Result<Response, Problem> {
    let types = types.split(',').map(TaskType::new);
    let is_fair = match claim.order.as_deref() {
        None | Some("listed") => false,
        Some("fair") => true,
        Some(other) => {
            let text = format!("order={other}: use listed or fair");
            return Err(Problem::bad_request(text));
        }
    };
    if is_raw && claim.limit.is_some_and(|limit| limit > 1) {
        let text = "an answer of bytes has one task: leave limit out, or accept JSON";
        return Err(Problem::bad_request(text));
    }
    let lock_for = claim.lock_for.as_deref().map(read_span);
    let wait = claim.wait.as_deref();
    let asked = Asked {
        types: types.collect::<Result<_, _>>()?,
        limit: claim.limit,
        wait: wait.map_or(Ok(Duration::ZERO), read_span)?,
        lock_for: lock_for.transpose()?,
        is_fair,
    };
    let handover = asked.claim(&allowed.space.pull).await?;
    // The token may have been revoked meanwhile. Dropping the handover releases the tasks.
    allowed.caller.is_still(&app.tokens)?;
    if is_raw {
        return Ok(bytes(handover));
    }
    let tasks = handover.tasks().iter().map(ClaimedView::from).collect();
    let json = serde_json::to_vec(&Claimed { tasks }).map_err(|error| {
        tracing::error!(%error, "cannot write a claim as JSON");
        Problem::unavailable("the answer could not be written")
    })?;
    let mut response = body(handover, json);
    let json = HeaderValue::from_static("application/json");
    response.headers_mut().insert(CONTENT_TYPE, json);
    Ok(response)
}

/// True if the client asks for the raw message.
///
/// Only this flag is kept from the headers. They are slices of the request's read buffer, and a
/// long wait would keep that buffer alive.
#[derive(Debug)]
struct IsRaw(bool);

impl<S: Send + Sync> FromRequestParts<S> for IsRaw {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        let accept = parts.headers.get(ACCEPT);
        let accept = accept.and_then(|value| value.to_str().ok());
        Ok(Self(accept.is_some_and(prefers_bytes)))
    }
}

/// True if an `Accept` header prefers bytes to JSON: it names bytes, and JSON not at all, later, or
/// with less weight.
fn prefers_bytes(accept: &str) -> bool {
    let weight_of = |wanted: &str| {
        let ranges = accept.split(',').enumerate();
        let mut weights = ranges.filter_map(|(place, range)| {
            let mut parts = range.split(';').map(str::trim);
            let is_wanted = parts.next()?.eq_ignore_ascii_case(wanted);
            let q = parts.find_map(|part| part.strip_prefix("q=").or(part.strip_prefix("Q=")));
            // Without a weight it is 1.
            let weight = q.map_or(Some(1.0), |q| q.trim().parse::<f32>().ok());
            is_wanted.then_some((weight.unwrap_or(0.0), place))
        });
        weights.next().filter(|(weight, _)| *weight > 0.0)
    };
    match (
        weight_of("application/octet-stream"),
        weight_of("application/json"),
    ) {
        (None, _) => false,
        (Some(_), None) => true,
        (Some((bytes, place)), Some((json, later))) => {
            bytes > json || (bytes >= json && place < later)
        }
    }
}

/// An answer with these bytes. The tasks count as delivered once its body is requested. If the
/// client is gone before that, the tasks are released. An empty body is never requested, so it
/// counts as delivered at once.
fn body(handover: Handover, bytes: Vec<u8>) -> Response {
    if bytes.is_empty() {
        drop(handover.delivered());
        return Response::new(Body::empty());
    }
    let length = HeaderValue::from(bytes.len());
    let first = stream::once(async move {
        drop(handover.delivered());
        Ok::<_, Infallible>(Bytes::from(bytes))
    });
    let mut response = Response::new(Body::from_stream(first));
    response.headers_mut().insert(CONTENT_LENGTH, length);
    response
}

/// The raw message of the first task.
fn bytes(handover: Handover) -> Response {
    let Some(pulled) = handover.tasks().first() else {
        return StatusCode::NO_CONTENT.into_response();
    };
    let task = &pulled.task;
    let kind = task.headers.get(CONTENT_TYPE.as_str());
    let kind = kind.map_or("application/octet-stream", String::as_str);
    let mut named = vec![
        ("delayq-type".to_owned(), pulled.task_type().to_string()),
        ("delayq-id".to_owned(), task.lock.id.to_string()),
        ("delayq-lock".to_owned(), pulled.lock().to_string()),
        ("delayq-attempt".to_owned(), task.attempt.to_string()),
        (
            "delayq-due-at".to_owned(),
            task.due_at.as_millis().to_string(),
        ),
        (
            "delayq-lock-until".to_owned(),
            task.lock_until.as_millis().to_string(),
        ),
        (CONTENT_TYPE.as_str().to_owned(), kind.to_owned()),
        // The sender chooses the content type, so a browser must not run the message as a page of
        // this server.
        (
            X_CONTENT_TYPE_OPTIONS.as_str().to_owned(),
            "nosniff".to_owned(),
        ),
        (
            CONTENT_SECURITY_POLICY.as_str().to_owned(),
            "sandbox".to_owned(),
        ),
    ];
    let own = task.headers.iter();
    named.extend(own.map(|(name, value)| (format!("delayq-header-{name}"), value.clone())));
    let message = task.message.clone();
    let mut response = body(handover, message);
    for (name, value) in named {
        // A task header that HTTP cannot carry is left out; the JSON form contains it.
        if let (Ok(name), Ok(value)) = (
            axum::http::HeaderName::try_from(name),
            HeaderValue::try_from(value),
        ) {
            response.headers_mut().insert(name, value);
        }
    }
    response
}

#[cfg(test)]
mod tests {
    use super::prefers_bytes;

    #[test]
    fn a_list_of_types_is_read_by_weight_and_order() {
        for (accept, prefers) in [
            ("application/octet-stream", true),
            ("application/octet-stream;q=1", true),
            ("application/octet-stream, */*;q=0.1", true),
            ("Application/Octet-Stream , application/json;q=0.5", true),
            (
                "application/json;q=0.5, application/octet-stream;q=0.6",
                true,
            ),
            ("application/octet-stream, application/json", true),
            ("application/json, application/octet-stream", false),
            ("application/octet-stream;q=0", false),
            ("application/octet-stream;q=0.2, application/json", false),
            ("*/*", false),
            ("text/plain", false),
            ("", false),
        ] {
            assert_eq!(prefers_bytes(accept), prefers, "{accept}");
        }
    }
}
