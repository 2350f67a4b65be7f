//! Insight into tasks and types, for people.

use axum::Json;
use axum::extract::Path;
use delayq_core::chronicle::MAX_ACTION_PAGE;
use delayq_ops::{Explanation, Moment, Overview};
use delayq_plugin::store::{LoggedAction, MAX_HISTOGRAM_STEPS, Spell, Step};
use delayq_plugin::{InstanceInfo, TaskType, Timestamp};
use delayq_service::access::Read;
use delayq_service::app::App;
use delayq_service::context::Allowed;
use delayq_service::operation::no_task;
use delayq_service::problem::Problem;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::extract::Query;
use super::form::{read_limit, read_time};

/// The default number of actions in an answer.
const ACTIONS: usize = 50;

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(overview))
        .routes(routes!(instances))
        .routes(routes!(log))
        .routes(routes!(histogram))
        .routes(routes!(figures))
        .routes(routes!(timeline))
        .routes(routes!(explain))
}

/// An overview of all types of the namespace and their problems.
///
/// Needs a token for all types.
#[utoipa::path(
    get, path = "/v1/{namespace}/overview", tag = "insight",
    params(("namespace", description = "Namespace")),
    responses((status = 200, body = serde_json::Value), (status = "4XX", body = Problem), (status = "5XX", body = Problem)),
    security(("token" = ["read"]))
)]
async fn overview(allowed: Allowed<Read>) -> Result<Json<Overview>, Problem> {
    allowed.caller.require_all_types()?;
    let overview = delayq_ops::overview_of_all(&allowed.space.tasks);
    Ok(Json(overview.await?))
}

/// The programs that currently work on this namespace.
///
/// Needs a token for all types.
#[utoipa::path(
    get, path = "/v1/{namespace}/instances", tag = "insight",
    params(("namespace", description = "Namespace")),
    responses((status = 200, body = Vec<serde_json::Value>), (status = "4XX", body = Problem), (status = "5XX", body = Problem)),
    security(("token" = ["read"]))
)]
async fn instances(allowed: Allowed<Read>) -> Result<Json<Vec<InstanceInfo>>, Problem> {
    allowed.caller.require_all_types()?;
    Ok(Json(allowed.space.tasks.instances().await?))
}

/// The selection of actions.
#[derive(Clone, Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
struct Actions {
    /// Only actions before the one with this number.
    before: Option<u64>,
    /// The maximum number, up to 500; default 50.
    limit: Option<usize>,
}

/// The log of manual actions, latest first.
///
/// Needs a token for all types.
#[utoipa::path(
    get, path = "/v1/{namespace}/log", tag = "insight",
    params(("namespace", description = "Namespace"), Actions),
    responses((status = 200, body = Vec<serde_json::Value>), (status = "4XX", body = Problem), (status = "5XX", body = Problem)),
    security(("token" = ["read"]))
)]
async fn log(
    allowed: Allowed<Read>,
    Query(actions): Query<Actions>,
) -> Result<Json<Vec<LoggedAction>>, Problem> {
    allowed.caller.require_all_types()?;
    let store = allowed.space.tasks.store();
    let limit = read_limit(actions.limit, ACTIONS, MAX_ACTION_PAGE)?;
    Ok(Json(store.actions(actions.before, limit).await?))
}

/// A time range and its resolution.
#[derive(Clone, Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
struct RangeQuery {
    /// The beginning: milliseconds since the epoch, or RFC 3339; default now.
    from: Option<String>,
    /// The end; default an hour after the beginning.
    to: Option<String>,
    /// The number of equal parts, 1 to 1,000; default 60.
    steps: Option<usize>,
}

/// The number of due tasks over time.
#[derive(Clone, Debug, Serialize, ToSchema)]
struct Histogram {
    /// The beginning of the first part.
    from: i64,
    /// The end of the last part.
    to: i64,
    /// The number of tasks due in each part.
    counts: Vec<u64>,
}

/// The number of scheduled tasks due in each part of a time span.
#[utoipa::path(
    get, path = "/v1/{namespace}/types/{task_type}/histogram", tag = "insight",
    params(("namespace", description = "Namespace"), ("task_type", description = "Type"), RangeQuery),
    responses((status = 200, body = Histogram), (status = "4XX", body = Problem), (status = "5XX", body = Problem)),
    security(("token" = ["read"]))
)]
async fn histogram(
    allowed: Allowed<Read>,
    Path((_, task_type)): Path<(String, String)>,
    Query(range): Query<RangeQuery>,
) -> Result<Json<Histogram>, Problem> {
    let tasks = &allowed.space.tasks;
    let hour = Step::Hour.length();
    let from = range.from.as_deref().map(read_time).transpose()?;
    let from = from.unwrap_or_else(|| tasks.clock().now());
    let to = range.to.as_deref().map(read_time).transpose()?;
    let to = to.unwrap_or_else(|| from.plus(hour));
    if to <= from {
        return Err(Problem::bad_request("to: give a time after from"));
    }
    let steps = range.steps.unwrap_or(60);
    if !(1..=MAX_HISTOGRAM_STEPS).contains(&steps) {
        let text = format!("steps={steps}: use 1 to {MAX_HISTOGRAM_STEPS}");
        return Err(Problem::bad_request(text));
    }
    let counts = tasks.due_histogram(&task_type, from, to, steps).await?;
    Ok(Json(Histogram {
        from: from.as_millis(),
        to: to.as_millis(),
        counts,
    }))
}

/// The selection of figures.
#[derive(Clone, Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
struct Since {
    /// `minute` (default; the last 24 hours) or `hour` (the last 30 days).
    step: Option<String>,
    /// The beginning: milliseconds since the epoch, or RFC 3339; default an hour, or a day, ago.
    since: Option<String>,
}

/// Figures of a type, by the minute or by the hour.
#[utoipa::path(
    get, path = "/v1/{namespace}/types/{task_type}/figures", tag = "insight",
    params(("namespace", description = "Namespace"), ("task_type", description = "Type"), Since),
    responses((status = 200, body = Vec<serde_json::Value>), (status = "4XX", body = Problem), (status = "5XX", body = Problem)),
    security(("token" = ["read"]))
)]
async fn figures(
    allowed: Allowed<Read>,
    Path((_, task_type)): Path<(String, String)>,
    Query(asked): Query<Since>,
) -> Result<Json<Vec<Spell>>, Problem> {
    let (step, back) = match asked.step.as_deref() {
        None | Some("minute") => (Step::Minute, Step::Hour.length()),
        Some("hour") => (Step::Hour, Step::Minute.reach()),
        Some(other) => {
            let text = format!("step={other}: use minute or hour");
            return Err(Problem::bad_request(text));
        }
    };
    let tasks = &allowed.space.tasks;
    let since = asked.since.as_deref().map(read_time).transpose()?;
    let since: Timestamp = since.unwrap_or_else(|| tasks.clock().now().minus(back));
    let task_type = TaskType::new(task_type)?;
    Ok(Json(tasks.store().figures(&task_type, step, since).await?))
}

/// The known history of a task, in order of time.
#[utoipa::path(
    get, path = "/v1/{namespace}/types/{task_type}/tasks/{id}/timeline", tag = "insight",
    params(("namespace", description = "Namespace"), ("task_type", description = "Type"), ("id", description = "Id")),
    responses((status = 200, body = Vec<serde_json::Value>), (status = "4XX", body = Problem), (status = "5XX", body = Problem)),
    security(("token" = ["read"]))
)]
async fn timeline(
    allowed: Allowed<Read>,
    Path((_, task_type, id)): Path<(String, String, String)>,
) -> Result<Json<Vec<Moment>>, Problem> {
    let moments = delayq_ops::timeline(&allowed.space.tasks, &task_type, &id).await?;
    if moments.is_empty() {
        return Err(no_task(&allowed, &task_type, &id));
    }
    Ok(Json(moments))
}

/// Explain in one sentence why a task has not started, or started late.
#[utoipa::path(
    get, path = "/v1/{namespace}/types/{task_type}/tasks/{id}/explain", tag = "insight",
    params(("namespace", description = "Namespace"), ("task_type", description = "Type"), ("id", description = "Id")),
    responses((status = 200, body = serde_json::Value), (status = "4XX", body = Problem), (status = "5XX", body = Problem)),
    security(("token" = ["read"]))
)]
async fn explain(
    allowed: Allowed<Read>,
    Path((_, task_type, id)): Path<(String, String, String)>,
) -> Result<Json<Explanation>, Problem> {
    let explained = delayq_ops::explain(&allowed.space.tasks, &task_type, &id);
    Ok(Json(explained.await?))
}
