//! Types: list, counts, pause and resume.

use axum::Json;
use axum::extract::Path;
use delayq_plugin::TypeStats;
use delayq_plugin::store::MAX_BATCH;
use delayq_service::access::{Operate, Read};
use delayq_service::app::App;
use delayq_service::context::Allowed;
use delayq_service::problem::Problem;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::extract::Query;
use super::form::{TaskView, read_cursor, read_limit, read_state, read_time, shown_cursor};

/// The default number of tasks on a page.
const PAGE: usize = 50;

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(types))
        .routes(routes!(stats))
        .routes(routes!(list))
        .routes(routes!(pause))
        .routes(routes!(resume))
}

/// List the types of a namespace that the token covers.
#[utoipa::path(
    get, path = "/v1/{namespace}/types", tag = "types",
    params(("namespace", description = "Namespace")),
    responses((status = 200, body = Vec<String>), (status = "4XX", body = Problem), (status = "5XX", body = Problem)),
    security(("token" = ["read"]))
)]
async fn types(allowed: Allowed<Read>) -> Result<Json<Vec<String>>, Problem> {
    let types = allowed.space.tasks.types().await?;
    let covered = types.iter().filter(|one| allowed.caller.token.covers(one));
    Ok(Json(covered.map(ToString::to_string).collect()))
}

/// Counts of a type, its next due time and its pause.
#[utoipa::path(
    get, path = "/v1/{namespace}/types/{task_type}", tag = "types",
    params(("namespace", description = "Namespace"), ("task_type", description = "Type")),
    responses((status = 200, body = serde_json::Value), (status = "4XX", body = Problem), (status = "5XX", body = Problem)),
    security(("token" = ["read"]))
)]
async fn stats(
    allowed: Allowed<Read>,
    Path((_, task_type)): Path<(String, String)>,
) -> Result<Json<TypeStats>, Problem> {
    Ok(Json(allowed.space.tasks.stats(&task_type).await?))
}

/// The selection of listed tasks.
#[derive(Clone, Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
struct ListQuery {
    /// `scheduled` (default), `running`, `dead`, `done`, `cancelled` or `expired`.
    state: Option<String>,
    /// The beginning of the page: `next` of the page before.
    cursor: Option<String>,
    /// The maximum number, up to 128; default 50.
    limit: Option<usize>,
}

/// A page of tasks.
#[derive(Clone, Debug, Serialize, ToSchema)]
struct TaskPage {
    /// In order of time: ended tasks latest first, all others earliest first.
    tasks: Vec<TaskView>,
    /// The cursor of the next page; absent after the last one.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<String>,
}

/// List tasks of a type by state.
#[utoipa::path(
    get, path = "/v1/{namespace}/types/{task_type}/tasks", tag = "types",
    params(("namespace", description = "Namespace"), ("task_type", description = "Type"), ListQuery),
    responses((status = 200, body = TaskPage), (status = "4XX", body = Problem), (status = "5XX", body = Problem)),
    security(("token" = ["read"]))
)]
async fn list(
    allowed: Allowed<Read>,
    Path((_, task_type)): Path<(String, String)>,
    Query(listing): Query<ListQuery>,
) -> Result<Json<TaskPage>, Problem> {
    let state = read_state(listing.state.as_deref())?;
    let cursor = listing.cursor.as_deref().map(read_cursor).transpose()?;
    let limit = read_limit(listing.limit, PAGE, MAX_BATCH)?;
    let tasks = &allowed.space.tasks;
    let page = tasks
        .list(&task_type, state, cursor.as_ref(), limit)
        .await?;
    Ok(Json(TaskPage {
        tasks: page.tasks.into_iter().map(TaskView::from).collect(),
        next: page.next.as_ref().map(shown_cursor),
    }))
}

/// The end of a pause.
#[derive(Clone, Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
struct PauseQuery {
    /// The end: milliseconds since the epoch, or RFC 3339; absent means until resumed.
    until: Option<String>,
    /// Also make a type that is not listed. Without it such a name is `unknown-type`.
    create: bool,
}

/// Pause a type: start none of its tasks until resumed. Repeating it is harmless.
#[utoipa::path(
    post, path = "/v1/{namespace}/types/{task_type}/pause", tag = "types",
    params(("namespace", description = "Namespace"), ("task_type", description = "Type"), PauseQuery),
    responses((status = 200, body = Vec<String>), (status = "4XX", body = Problem), (status = "5XX", body = Problem)),
    security(("token" = ["operate"]))
)]
async fn pause(
    allowed: Allowed<Operate>,
    Path((_, types)): Path<(String, String)>,
    Query(pause): Query<PauseQuery>,
) -> Result<Json<Vec<String>>, Problem> {
    let until = pause.until.as_deref().map(read_time).transpose()?;
    let operator = allowed.operator().creating(pause.create);
    let paused = operator.pause(&types, until).await;
    let paused = paused.map_err(Problem::or_create)?;
    Ok(Json(paused.iter().map(ToString::to_string).collect()))
}

/// End a pause. Repeating it is harmless.
#[utoipa::path(
    post, path = "/v1/{namespace}/types/{task_type}/resume", tag = "types",
    params(("namespace", description = "Namespace"), ("task_type", description = "Type")),
    responses((status = 200, body = Vec<String>), (status = "4XX", body = Problem), (status = "5XX", body = Problem)),
    security(("token" = ["operate"]))
)]
async fn resume(
    allowed: Allowed<Operate>,
    Path((_, types)): Path<(String, String)>,
) -> Result<Json<Vec<String>>, Problem> {
    let resumed = allowed.operator().resume(&types).await?;
    Ok(Json(resumed.iter().map(ToString::to_string).collect()))
}
