//! One task: create, find, cancel.

use axum::Json;
use axum::extract::Path;
use axum::http::{HeaderMap, StatusCode};
use delayq_plugin::DelayQueueJob;
use delayq_plugin::store::CancelOutcome;
use serde_json::{Value, json};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::extract::{Body, Query};
use super::form::{Accepted, CreateOptions, TaskView, task_headers};
use crate::access::{Allowed, Read, Submit};
use crate::app::App;
use crate::problem::Problem;

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(create))
        .routes(routes!(create_with_id, find, cancel))
}

/// Create a task under a new id.
///
/// The body is the message, byte for byte. Repeated after a lost answer it makes a second task:
/// give an id of your own where that matters.
#[utoipa::path(
    post, path = "/v1/{namespace}/types/{task_type}/tasks", tag = "tasks",
    params(("namespace", description = "Namespace"), ("task_type", description = "Type"), CreateOptions),
    request_body(content = Vec<u8>, description = "The message", content_type = "*/*"),
    responses((status = 201, body = Accepted), (status = "4XX", body = Problem), (status = "5XX", body = Problem)),
    security(("token" = ["submit"]))
)]
async fn create(
    allowed: Allowed<Submit>,
    Path((_, task_type)): Path<(String, String)>,
    Query(options): Query<CreateOptions>,
    headers: HeaderMap,
    Body(body): Body,
) -> Result<(StatusCode, Json<Accepted>), Problem> {
    let job = DelayQueueJob::raw(task_type, body);
    send(&allowed, job, options, &headers).await
}

/// Create a task under an id of your own. Repeating it is harmless.
#[utoipa::path(
    put, path = "/v1/{namespace}/types/{task_type}/tasks/{id}", tag = "tasks",
    params(("namespace", description = "Namespace"), ("task_type", description = "Type"), ("id", description = "Id"), CreateOptions),
    request_body(content = Vec<u8>, description = "The message", content_type = "*/*"),
    responses((status = 201, body = Accepted), (status = 200, body = Accepted), (status = "4XX", body = Problem), (status = "5XX", body = Problem)),
    security(("token" = ["submit"]))
)]
async fn create_with_id(
    allowed: Allowed<Submit>,
    Path((_, task_type, id)): Path<(String, String, String)>,
    Query(options): Query<CreateOptions>,
    headers: HeaderMap,
    Body(body): Body,
) -> Result<(StatusCode, Json<Accepted>), Problem> {
    let job = DelayQueueJob::raw(task_type, body).id(id);
    send(&allowed, job, options, &headers).await
}

async fn send(
    allowed: &Allowed<Submit>,
    job: DelayQueueJob,
    options: CreateOptions,
    headers: &HeaderMap,
) -> Result<(StatusCode, Json<Accepted>), Problem> {
    let job = task_headers(options.apply(job)?, headers)?;
    let accepted = Accepted::from(allowed.space.tasks.send(job).await?);
    let status = match accepted.outcome {
        "already_exists" => StatusCode::OK,
        _ => StatusCode::CREATED,
    };
    Ok((status, Json(accepted)))
}

/// Find a task. One that has ended is known for the retention.
#[utoipa::path(
    get, path = "/v1/{namespace}/types/{task_type}/tasks/{id}", tag = "tasks",
    params(("namespace", description = "Namespace"), ("task_type", description = "Type"), ("id", description = "Id")),
    responses((status = 200, body = TaskView), (status = "4XX", body = Problem), (status = "5XX", body = Problem)),
    security(("token" = ["read"]))
)]
async fn find(
    allowed: Allowed<Read>,
    Path((_, task_type, id)): Path<(String, String, String)>,
) -> Result<Json<TaskView>, Problem> {
    let task = allowed.space.tasks.find(&task_type, &id).await?;
    let unknown = || Problem::not_found(format!("there is no task {id} of type {task_type}"));
    Ok(Json(task.ok_or_else(unknown)?.into()))
}

/// Cancel a task. After `cancelled` it never starts; a running one is asked to stop.
#[utoipa::path(
    delete, path = "/v1/{namespace}/types/{task_type}/tasks/{id}", tag = "tasks",
    params(("namespace", description = "Namespace"), ("task_type", description = "Type"), ("id", description = "Id")),
    responses((status = 200), (status = 202, description = "It runs, and is asked to stop"), (status = "4XX", body = Problem), (status = "5XX", body = Problem)),
    security(("token" = ["submit"]))
)]
async fn cancel(
    allowed: Allowed<Submit>,
    Path((_, task_type, id)): Path<(String, String, String)>,
) -> Result<(StatusCode, Json<Value>), Problem> {
    let outcome = allowed.space.tasks.cancel(&task_type, &id).await?;
    match outcome {
        CancelOutcome::Cancelled => Ok((StatusCode::OK, Json(json!({"outcome": "cancelled"})))),
        CancelOutcome::Running => Ok((StatusCode::ACCEPTED, Json(json!({"outcome": "running"})))),
        CancelOutcome::Finished(state) => {
            let text = format!("{id} of {task_type} has ended: it is {state}");
            Err(Problem::conflict("finished", text))
        }
        _ => {
            let text = format!("there is no task {id} of type {task_type}");
            Err(Problem::not_found(text))
        }
    }
}
