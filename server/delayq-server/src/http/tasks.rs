//! One task: create, find, cancel.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use axum::Json;
use axum::extract::Path;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use delayq_plugin::store::CancelOutcome;
use delayq_plugin::{DelayQueueJob, TaskId, TaskReply, TaskState, TaskType};
use delayq_service::access::{Read, Submit};
use delayq_service::app::App;
use delayq_service::context::Allowed;
use delayq_service::operation::{self, Submission, submit_one};
use delayq_service::problem::Problem;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::extract::{Query, RawRequest};
use super::form::{Accepted, CreateOptions, TaskView, task_headers};
use super::message_kind::read_kind;
use super::reply::{Pending, answer, read_wait};
use super::target::own_target;

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(create, cancel_each))
        .routes(routes!(create_with_id, find, cancel))
}

/// Create a task under a new id.
///
/// The body is the message, byte for byte. A meaningful `Content-Type` becomes the header
/// `content-type` of the task, which claims and pushes pass on. A message declared as JSON must be
/// valid JSON. Repeating the call after a lost answer creates a second task; use an id of your own
/// if that matters. With `wait`, the answer is the worker's reply, as for `GET .../reply`.
///
/// The header `Delayq-Target` gives the task its own target, as JSON. It needs the scope `operate`,
/// unless the configuration allows it to everybody.
#[utoipa::path(
    post, path = "/v1/{namespace}/types/{task_type}/tasks", tag = "tasks",
    params(("namespace", description = "Namespace"), ("task_type", description = "Type"), CreateOptions),
    request_body(content = Vec<u8>, description = "The message", content_type = "*/*"),
    responses((status = 201, body = Accepted), (status = 200, description = "With wait: the reply", content_type = "*/*", body = Vec<u8>), (status = 202, description = "With wait: it goes on", body = Pending), (status = 204, description = "With wait: done without a reply"), (status = "4XX", body = Problem), (status = "5XX", body = Problem)),
    security(("token" = ["submit"]))
)]
async fn create(
    allowed: Allowed<Submit>,
    Path((_, task_type)): Path<(String, String)>,
    Query(options): Query<CreateOptions>,
    sent: RawRequest,
) -> Result<Response, Problem> {
    let job = DelayQueueJob::raw(task_type, sent.body);
    send(&allowed, job, &sent.headers, options).await
}

/// Create a task under an id of your own. Repeating it is harmless.
///
/// The body is the message, byte for byte. A meaningful `Content-Type` becomes the header
/// `content-type` of the task, which claims and pushes pass on. A message declared as JSON must be
/// valid JSON.
///
/// With `wait`, the answer is the worker's reply, as for `GET .../reply`.
///
/// The header `Delayq-Target` gives the task its own target, as JSON. It needs the scope `operate`,
/// unless the configuration allows it to everybody.
#[utoipa::path(
    put, path = "/v1/{namespace}/types/{task_type}/tasks/{id}", tag = "tasks",
    params(("namespace", description = "Namespace"), ("task_type", description = "Type"), ("id", description = "Id"), CreateOptions),
    request_body(content = Vec<u8>, description = "The message", content_type = "*/*"),
    responses((status = 201, body = Accepted), (status = 200, description = "It existed already; with wait: the reply", content((Accepted = "application/json"), (Vec<u8> = "*/*"))), (status = 202, description = "With wait: it goes on", body = Pending), (status = 204, description = "With wait: done without a reply"), (status = "4XX", body = Problem), (status = "5XX", body = Problem)),
    security(("token" = ["submit"]))
)]
async fn create_with_id(
    allowed: Allowed<Submit>,
    Path((_, task_type, id)): Path<(String, String, String)>,
    Query(options): Query<CreateOptions>,
    sent: RawRequest,
) -> Result<Response, Problem> {
    let job = DelayQueueJob::raw(task_type, sent.body).id(id);
    send(&allowed, job, &sent.headers, options).await
}

/// Creates a task with the options of the headers and the query.
async fn send(
    allowed: &Allowed<Submit>,
    mut job: DelayQueueJob,
    headers: &HeaderMap,
    options: CreateOptions,
) -> Result<Response, Problem> {
    if let Some(kind) = read_kind(headers, job.message())? {
        job = job.header(CONTENT_TYPE.as_str(), kind);
    }
    let job = task_headers(job, headers)?;
    let wait = options.wait.as_deref().map(|text| read_wait(Some(text)));
    let wait = wait.transpose()?;
    let job = options.apply(job)?;
    let submission = Submission::of_job(allowed, job).await?;
    let submission = submission.to(own_target(headers)?);
    let task_type = submission.task.task_type.clone();
    let receipt = submit_one(allowed, submission).await?;
    if let Some(wait) = wait {
        return Box::pin(answer_of(allowed, task_type, receipt.id, wait)).await;
    }
    let accepted = Accepted::from(receipt);
    let status = match accepted.outcome {
        "already_exists" => StatusCode::OK,
        _ => StatusCode::CREATED,
    };
    Ok((status, Json(accepted)).into_response())
}

/// Waits for the reply of a task that was just accepted.
async fn answer_of(
    allowed: &Allowed<Submit>,
    task_type: TaskType,
    id: TaskId,
    wait: Duration,
) -> Result<Response, Problem> {
    let end = allowed.space.reply(task_type.as_str(), id.as_str(), wait);
    // The task is accepted, even if the wait fails.
    let end = end.await.map_err(Problem::from);
    // The token may have been revoked meanwhile.
    let end = end.and_then(|end| allowed.recheck().map(|()| end));
    let end = end.unwrap_or_else(|error| {
        tracing::debug!(%task_type, %id, %error, "the wait for a reply failed");
        TaskReply::pending(task_type, id)
    });
    answer(&allowed.space.namespace, end)
}

/// Find a task. An ended task is remembered for the retention time.
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
    let task = operation::find(&allowed, &task_type, &id).await?;
    Ok(Json(task.into()))
}

/// The ids of tasks.
#[derive(Clone, Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct IdsQuery {
    /// The ids, separated by commas; at most 1,000.
    ids: String,
}

/// What a cancel came to.
#[derive(Clone, Copy, Debug, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum Cancel {
    /// It never starts.
    Cancelled,
    /// It runs, and is asked to stop.
    Running,
    /// It had ended in another way.
    Finished,
    /// There is no such task.
    NotFound,
}

impl From<CancelOutcome> for Cancel {
    fn from(outcome: CancelOutcome) -> Self {
        match outcome {
            CancelOutcome::Cancelled | CancelOutcome::Finished(TaskState::Cancelled) => {
                Self::Cancelled
            }
            CancelOutcome::Running => Self::Running,
            CancelOutcome::Finished(_) => Self::Finished,
            _ => Self::NotFound,
        }
    }
}

/// The end of one cancel.
#[derive(Clone, Copy, Debug, Serialize, ToSchema)]
struct CancelView {
    /// `cancelled` or `running`.
    outcome: Cancel,
}

/// Cancel several tasks by their ids. The answer has the outcome of each: `cancelled`, `running`
/// (it is asked to stop), `finished` or `not_found`. Repeating it is harmless.
#[utoipa::path(
    delete, path = "/v1/{namespace}/types/{task_type}/tasks", tag = "tasks",
    params(("namespace", description = "Namespace"), ("task_type", description = "Type"), IdsQuery),
    responses((status = 200, body = BTreeMap<String, Cancel>, description = "The outcome of each id"), (status = "4XX", body = Problem), (status = "5XX", body = Problem)),
    security(("token" = ["submit"]))
)]
async fn cancel_each(
    allowed: Allowed<Submit>,
    Path((_, task_type)): Path<(String, String)>,
    Query(IdsQuery { ids }): Query<IdsQuery>,
) -> Result<Json<BTreeMap<String, Cancel>>, Problem> {
    let ids: BTreeSet<&str> = ids.split(',').collect();
    let mut outcomes = BTreeMap::new();
    let cancelled = operation::cancel_each(&allowed, &task_type, ids.iter().copied()).await?;
    for (id, outcome) in ids.into_iter().zip(cancelled) {
        outcomes.insert(id.to_owned(), outcome.into());
    }
    Ok(Json(outcomes))
}

/// Cancel a task. After `cancelled` it never starts; a running one is asked to stop. Repeating it
/// is harmless.
#[utoipa::path(
    delete, path = "/v1/{namespace}/types/{task_type}/tasks/{id}", tag = "tasks",
    params(("namespace", description = "Namespace"), ("task_type", description = "Type"), ("id", description = "Id")),
    responses((status = 200, body = CancelView), (status = 202, body = CancelView, description = "It runs, and is asked to stop"), (status = "4XX", body = Problem), (status = "5XX", body = Problem)),
    security(("token" = ["submit"]))
)]
async fn cancel(
    allowed: Allowed<Submit>,
    Path((_, task_type, id)): Path<(String, String, String)>,
) -> Result<(StatusCode, Json<CancelView>), Problem> {
    let cancelled = allowed.space.tasks.cancel(&task_type, &id).await?;
    let outcome = cancelled.into();
    let status = match (outcome, cancelled) {
        (Cancel::Cancelled, _) => StatusCode::OK,
        (Cancel::Running, _) => StatusCode::ACCEPTED,
        (_, CancelOutcome::Finished(state)) => {
            let text = format!("{id} of {task_type} has ended: it is {state}");
            return Err(Problem::conflict("finished", text));
        }
        _ => return Err(Problem::no_task(&task_type, &id)),
    };
    Ok((status, Json(CancelView { outcome })))
}
