//! Changes of one scheduled task: its time or its message.

use axum::Json;
use axum::extract::Path;
use delayq_plugin::When;
use delayq_plugin::store::ChangeOutcome;
use delayq_service::access::Submit;
use delayq_service::app::App;
use delayq_service::context::Allowed;
use delayq_service::operation;
use delayq_service::problem::Problem;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::extract::{Query, RawRequest};
use super::form::read_when;
use super::message_kind::read_kind;

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(reschedule))
        .routes(routes!(run_now))
        .routes(routes!(update))
}

/// A new time.
#[derive(Clone, Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
struct NewTime {
    /// The delay from now: milliseconds, or a span such as `30m`.
    delay: Option<String>,
    /// The time: milliseconds since the epoch, or RFC 3339.
    at: Option<String>,
}

/// A stored change.
#[derive(Clone, Debug, Serialize, ToSchema)]
struct Changed {
    /// The due time of the task, in milliseconds since the epoch.
    due_at: i64,
}

/// Move a scheduled task to another time. Repeating it is harmless, but a delay starts again.
#[utoipa::path(
    post, path = "/v1/{namespace}/types/{task_type}/tasks/{id}/reschedule", tag = "tasks",
    params(("namespace", description = "Namespace"), ("task_type", description = "Type"), ("id", description = "Id"), NewTime),
    responses((status = 200, body = Changed), (status = "4XX", body = Problem), (status = "5XX", body = Problem)),
    security(("token" = ["submit"]))
)]
async fn reschedule(
    allowed: Allowed<Submit>,
    Path((_, task_type, id)): Path<(String, String, String)>,
    Query(time): Query<NewTime>,
) -> Result<Json<Changed>, Problem> {
    let when = read_when(time.delay, time.at)?;
    let when = when.ok_or_else(|| Problem::bad_request("give delay or at"))?;
    let moved = operation::reschedule(&allowed, &task_type, &id, when).await?;
    changed(moved, &task_type, &id)
}

/// Make a scheduled task due now. Repeating it is harmless.
#[utoipa::path(
    post, path = "/v1/{namespace}/types/{task_type}/tasks/{id}/run-now", tag = "tasks",
    params(("namespace", description = "Namespace"), ("task_type", description = "Type"), ("id", description = "Id")),
    responses((status = 200, body = Changed), (status = "4XX", body = Problem), (status = "5XX", body = Problem)),
    security(("token" = ["submit"]))
)]
async fn run_now(
    allowed: Allowed<Submit>,
    Path((_, task_type, id)): Path<(String, String, String)>,
) -> Result<Json<Changed>, Problem> {
    let now = When::After(std::time::Duration::ZERO);
    let moved = operation::reschedule(&allowed, &task_type, &id, now).await?;
    changed(moved, &task_type, &id)
}

/// Replace the message of a scheduled task, and its content type if one is given; keep its other
/// headers and its due time. Repeating it is harmless.
#[utoipa::path(
    put, path = "/v1/{namespace}/types/{task_type}/tasks/{id}/message", tag = "tasks",
    params(("namespace", description = "Namespace"), ("task_type", description = "Type"), ("id", description = "Id")),
    request_body(content = Vec<u8>, description = "The message", content_type = "*/*"),
    responses((status = 200, body = Changed), (status = "4XX", body = Problem), (status = "5XX", body = Problem)),
    security(("token" = ["submit"]))
)]
async fn update(
    allowed: Allowed<Submit>,
    Path((_, task_type, id)): Path<(String, String, String)>,
    RawRequest { headers, body }: RawRequest,
) -> Result<Json<Changed>, Problem> {
    let kind = read_kind(&headers, &body)?;
    let updated = operation::update(&allowed, &task_type, &id, body, kind).await?;
    changed(updated, &task_type, &id)
}

fn changed(outcome: ChangeOutcome, task_type: &str, id: &str) -> Result<Json<Changed>, Problem> {
    match outcome {
        ChangeOutcome::Changed { due_at } => Ok(Json(Changed {
            due_at: due_at.as_millis(),
        })),
        ChangeOutcome::Running => {
            let text = format!("{id} of {task_type} runs: nothing was changed");
            Err(Problem::conflict("running", text))
        }
        ChangeOutcome::Finished(state) => {
            let text = format!("{id} of {task_type} is {state}: nothing was changed");
            Err(Problem::conflict("finished", text))
        }
        _ => Err(Problem::no_task(task_type, id)),
    }
}
