//! The history: what became of tasks.

use axum::Json;
use axum::extract::Path;
use delayq_plugin::history::{
    Fate, Forget, Forgotten, HistoryPage, HistoryQuery, LifeOutcome, MAX_HISTORY_PAGE,
};
use delayq_plugin::{TaskId, TaskType};
use delayq_service::access::{Admin, Read};
use delayq_service::app::App;
use delayq_service::context::Allowed;
use delayq_service::operation::{forget_history, search_history, what_became_of};
use delayq_service::problem::Problem;
use serde::Deserialize;
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::answer::{FateForm, ForgottenForm, HistoryPageForm};
use super::extract::{JsonBody, Query};
use super::form::{read_limit, read_span, read_time};

/// The default number of lives in an answer.
const LIVES: usize = 100;

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(search))
        .routes(routes!(fate))
        .routes(routes!(forget))
}

/// Conditions on lives; all of them have to hold.
#[derive(Clone, Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
struct Conditions {
    /// Of this type. Without it, the token has to be for all types.
    #[serde(rename = "type")]
    #[param(rename = "type")]
    task_type: Option<String>,
    /// With this id.
    id: Option<String>,
    /// With this group.
    group: Option<String>,
    /// With this project.
    project: Option<String>,
    /// That ended in one of these ways, with commas between them: done, dead, expired, cancelled,
    /// discarded.
    outcome: Option<String>,
    /// That ended at this time or later: milliseconds since the epoch, or RFC 3339.
    since: Option<String>,
    /// That ended before this time.
    until: Option<String>,
    /// Whose last error contains this text.
    error: Option<String>,
    /// Whose first attempt started more than this after it was due: milliseconds, or `5m`.
    late_by: Option<String>,
    /// Whose last attempt took longer than this.
    longer_than: Option<String>,
    /// The maximum number, up to 1,000; default 100.
    limit: Option<usize>,
    /// The `next` of the page before.
    cursor: Option<String>,
}

impl Conditions {
    fn query(self) -> Result<HistoryQuery, Problem> {
        let mut query = HistoryQuery::default();
        query.task_type = self.task_type.map(TaskType::new).transpose()?;
        query.id = self.id.map(TaskId::new).transpose()?;
        query.group = self.group;
        query.project = self.project;
        let outcomes = self.outcome.iter().flat_map(|all| all.split(','));
        let outcomes: Result<Vec<LifeOutcome>, _> = outcomes.map(str::parse).collect();
        query.outcomes = outcomes?;
        query.since = self.since.as_deref().map(read_time).transpose()?;
        query.until = self.until.as_deref().map(read_time).transpose()?;
        query.error = self.error;
        query.late_by = self.late_by.as_deref().map(read_span).transpose()?;
        query.longer_than = self.longer_than.as_deref().map(read_span).transpose()?;
        query.limit = read_limit(self.limit, LIVES, MAX_HISTORY_PAGE)?;
        query.after = self.cursor.as_deref().map(str::parse).transpose()?;
        Ok(query)
    }
}

/// Search the history for ended tasks, latest end first.
///
/// A life is there a few seconds after its end, for as long as the history keeps it. Without a type
/// it needs a token for all types.
#[utoipa::path(
    get, path = "/v1/{namespace}/history", tag = "insight",
    params(("namespace", description = "Namespace"), Conditions),
    responses((status = 200, body = HistoryPageForm), (status = "4XX", body = Problem), (status = "5XX", body = Problem)),
    security(("token" = ["read"]))
)]
async fn search(
    allowed: Allowed<Read>,
    Query(conditions): Query<Conditions>,
) -> Result<Json<HistoryPage>, Problem> {
    Ok(Json(search_history(&allowed, &conditions.query()?).await?))
}

/// What became of a task: as it is now, and its ended lives, latest first.
#[utoipa::path(
    get, path = "/v1/{namespace}/types/{task_type}/tasks/{id}/history", tag = "insight",
    params(("namespace", description = "Namespace"), ("task_type", description = "Type"), ("id", description = "Id")),
    responses((status = 200, body = FateForm), (status = "4XX", body = Problem), (status = "5XX", body = Problem)),
    security(("token" = ["read"]))
)]
async fn fate(
    allowed: Allowed<Read>,
    Path((_, task_type, id)): Path<(String, String, String)>,
) -> Result<Json<Fate>, Problem> {
    Ok(Json(what_became_of(&allowed, &task_type, &id).await?))
}

/// Whose lives are removed: an id or a group.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct Whom {
    /// The lives of the tasks with this id.
    id: Option<String>,
    /// The lives with this group.
    group: Option<String>,
    /// Only lives of this type.
    #[serde(rename = "type")]
    task_type: Option<String>,
}

/// Remove the lives of a task or of a group from the history, for good.
///
/// The log of actions keeps that it was done. Tasks that have not ended are left alone.
#[utoipa::path(
    post, path = "/v1/{namespace}/history/forget", tag = "insight",
    params(("namespace", description = "Namespace")),
    request_body = Whom,
    responses((status = 200, body = ForgottenForm), (status = "4XX", body = Problem), (status = "5XX", body = Problem)),
    security(("token" = ["admin"]))
)]
async fn forget(
    allowed: Allowed<Admin>,
    JsonBody(whom): JsonBody<Whom>,
) -> Result<Json<Forgotten>, Problem> {
    let task_type = whom.task_type.map(TaskType::new).transpose()?;
    let whom = match (whom.id, whom.group) {
        (Some(id), None) => Forget::id(TaskId::new(id)?, task_type),
        (None, Some(group)) => Forget::group(&group, task_type),
        _ => return Err(Problem::bad_request("give id or group, one of the two")),
    };
    Ok(Json(forget_history(&allowed, &whom).await?))
}
