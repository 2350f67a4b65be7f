//! Replies of workers to callers that wait for a task.

use std::time::Duration;

use axum::Json;
use axum::extract::{Path, State};
use axum::http::header::{CONTENT_SECURITY_POLICY, CONTENT_TYPE, LOCATION, X_CONTENT_TYPE_OPTIONS};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use delayq_plugin::store::KeptReply;
use delayq_plugin::{Namespace, Reply, ReplyOutcome, TaskReply};
use delayq_service::access::Submit;
use delayq_service::app::App;
use delayq_service::context::Allowed;
use delayq_service::problem::Problem;
use delayq_service::pull::MAX_WAIT;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::extract::Query;
use super::form::read_span;

/// The response header with the id of the task.
const TASK_ID: HeaderName = HeaderName::from_static("delayq-task-id");
/// The content type that curl sets for `--data`, whatever the data is.
const FORM: &str = "application/x-www-form-urlencoded";
const TEXT: &str = "text/plain; charset=utf-8";

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(reply))
}

/// The time to wait.
#[derive(Clone, Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
struct Wait {
    /// The time to wait for the end of the task: milliseconds, or a span such as `30s`; at most
    /// `60s`; default 0.
    wait: Option<String>,
}

/// A task that has not ended yet.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(super) struct Pending {
    /// The id of the task.
    id: String,
    /// `pending`: the task has not ended.
    outcome: &'static str,
    /// The path to ask again, for example with `?wait=30s`.
    reply: String,
}

/// Wait for the end of a task and get the reply of its worker. Repeating it is harmless.
///
/// A reply is kept for an hour, unless the worker sets another time.
#[utoipa::path(
    get, path = "/v1/{namespace}/types/{task_type}/tasks/{id}/reply", tag = "tasks",
    params(("namespace", description = "Namespace"), ("task_type", description = "Type"), ("id", description = "Id"), Wait),
    responses(
        (status = 200, description = "The reply, byte for byte, with the content type of the worker", content_type = "*/*", body = Vec<u8>),
        (status = 202, description = "It goes on: ask again", body = Pending),
        (status = 204, description = "It is done, and there is no reply"),
        (status = 410, description = "It was cancelled or expired", body = Problem),
        (status = 424, description = "It is dead", body = Problem),
        (status = "4XX", body = Problem), (status = "5XX", body = Problem)
    ),
    security(("token" = ["submit"]))
)]
async fn reply(
    allowed: Allowed<Submit>,
    Path((namespace, task_type, id)): Path<(Namespace, String, String)>,
    State(app): State<App>,
    Query(asked): Query<Wait>,
) -> Result<Response, Problem> {
    let wait = read_wait(asked.wait.as_deref())?;
    let end = allowed.space.reply(&task_type, &id, wait).await?;
    allowed.caller.is_still(&app.tokens)?;
    answer(&namespace, end)
}

/// Parses a wait; the default is no wait.
pub(super) fn read_wait(text: Option<&str>) -> Result<Duration, Problem> {
    let wait = text.map_or(Ok(Duration::ZERO), read_span)?;
    if wait > MAX_WAIT {
        let text = "wait: at most 60s; ask again at /reply for longer";
        return Err(Problem::bad_request(text));
    }
    Ok(wait)
}

/// The response to a caller that waited for a task.
pub(super) fn answer(namespace: &Namespace, end: TaskReply) -> Result<Response, Problem> {
    let TaskReply {
        task_type,
        id,
        outcome,
        ..
    } = end;
    let name = format!("{id} of {task_type}");
    let mut response = match outcome {
        ReplyOutcome::Replied(reply) => replied(reply),
        ReplyOutcome::Done => StatusCode::NO_CONTENT.into_response(),
        ReplyOutcome::TimedOut => {
            // Percent-encoded, because an id may contain any visible character.
            let named = utf8_percent_encode(id.as_str(), NON_ALPHANUMERIC);
            let path = format!("/v1/{namespace}/types/{task_type}/tasks/{named}/reply");
            let location = [(LOCATION, path.clone())];
            let pending = Pending {
                id: id.to_string(),
                outcome: "pending",
                reply: path,
            };
            (StatusCode::ACCEPTED, location, Json(pending)).into_response()
        }
        ReplyOutcome::Dead { error } => {
            let text = format!("{name} is dead, and waits for an operator: {error}");
            return Err(Problem::dead(text));
        }
        ReplyOutcome::Cancelled => {
            return Err(Problem::gone("cancelled", format!("{name} was cancelled")));
        }
        ReplyOutcome::Expired => {
            let text = format!("{name} expired: it was too late to be worth running");
            return Err(Problem::gone("expired", text));
        }
        _ => {
            let text =
                format!("there is no task {name}, or it ended longer ago than the retention");
            return Err(Problem::not_found(text));
        }
    };
    if let Ok(id) = HeaderValue::from_str(id.as_str()) {
        response.headers_mut().insert(TASK_ID, id);
    }
    Ok(response)
}

fn replied(reply: KeptReply) -> Response {
    let content_type = HeaderValue::from_str(&reply.content_type).ok();
    let octets = || HeaderValue::from_static("application/octet-stream");
    let content_type = content_type.filter(|name| !name.is_empty());
    let headers = [
        (CONTENT_TYPE, content_type.unwrap_or_else(octets)),
        // The worker chooses the content type, so a browser must not run the reply as a page of
        // this server.
        (X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
        (CONTENT_SECURITY_POLICY, HeaderValue::from_static("sandbox")),
    ];
    (headers, reply.body).into_response()
}

/// The reply in the body of a settlement; `None` for an empty body.
pub(super) fn read_reply(headers: &HeaderMap, body: Vec<u8>) -> Result<Option<Reply>, Problem> {
    if body.is_empty() {
        return Ok(None);
    }
    let named = headers.get(CONTENT_TYPE).map(HeaderValue::to_str);
    let named = named.transpose().map_err(|_| {
        Problem::bad_request("the content type of the reply has other characters than ASCII")
    })?;
    let is_text = named == Some(FORM) && std::str::from_utf8(&body).is_ok();
    let reply = Reply::bytes(body);
    let reply = match named {
        _ if is_text => reply.content_type(TEXT),
        None | Some(FORM) => reply,
        Some(named) => reply.content_type(named),
    };
    reply.check()?;
    Ok(Some(reply))
}
