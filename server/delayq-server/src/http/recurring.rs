//! Recurring tasks that are declared to the server.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::Path;
use axum::http::StatusCode;
use delayq_core::job::GROUP_HEADER;
use delayq_plugin::store::MAX_BATCH;
use delayq_plugin::{TaskType, Timestamp};
use delayq_service::access::{Operate, Read};
use delayq_service::app::App;
use delayq_service::context::Allowed;
use delayq_service::json::{distinct, written};
use delayq_service::operation::recurring::{self, NamedRecurring};
use delayq_service::problem::Problem;
use delayq_service::recurring::RecurringTask;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::extract::{JsonBody, Query};
use super::form::{MessageView, read_limit};
use super::line::Content;

/// The default number of recurring tasks on a page.
const PAGE: usize = 50;

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(list))
        .routes(routes!(shown, set, remove))
        .routes(routes!(pause))
        .routes(routes!(resume))
}

/// A recurring task to declare.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct RecurringForm {
    /// The type of its occurrences.
    #[serde(rename = "type")]
    task_type: String,
    /// Five fields of cron, such as `0 9 * * MON-FRI`, or an interval of whole seconds, such as
    /// `15m`, that counts from 1970.
    every: String,
    /// The time zone of the five fields, such as `Europe/Berlin`; default UTC.
    zone: Option<String>,
    /// The message of each occurrence, as text; at most 32 KiB.
    message: Option<String>,
    /// The same in base64.
    message_base64: Option<String>,
    /// The same as any JSON value, also `null`, sent exactly as written here, with the header
    /// `content-type`.
    #[serde(default, deserialize_with = "written")]
    #[schema(value_type = Option<serde_json::Value>)]
    json: Option<Box<RawValue>>,
    /// The headers of each occurrence.
    #[serde(default, deserialize_with = "distinct")]
    headers: BTreeMap<String, String>,
    /// The label of a group.
    group: Option<String>,
    /// If `true`, it sends none.
    #[serde(default)]
    paused: bool,
}

impl RecurringForm {
    /// The declaration.
    pub(super) fn task(self) -> Result<RecurringTask, Problem> {
        let mut content = Content {
            text: self.message,
            base64: self.message_base64,
            json: self.json,
            headers: self.headers,
        };
        let headers = content.take_headers()?;
        let task_type = TaskType::new(self.task_type)?;
        let mut task = RecurringTask::new(task_type, self.every, &content.message()?);
        task.zone = self.zone;
        task.headers = headers;
        if let Some(group) = self.group {
            task.headers.insert(GROUP_HEADER.to_owned(), group);
        }
        task.is_paused = self.paused;
        Ok(task)
    }
}

/// A recurring task.
#[derive(Clone, Debug, Serialize, ToSchema)]
struct RecurringView {
    /// Its id. Occurrences have the ids `ID@TIME`.
    id: String,
    /// The type of its occurrences.
    #[serde(rename = "type")]
    task_type: String,
    /// Its schedule.
    every: String,
    /// The time zone of the schedule.
    #[serde(skip_serializing_if = "Option::is_none")]
    zone: Option<String>,
    #[serde(flatten)]
    message: MessageView,
    /// The headers of each occurrence.
    headers: BTreeMap<String, String>,
    /// True if it sends none.
    paused: bool,
    /// The time when the next occurrence is due, in milliseconds since the epoch; absent while it
    /// is paused.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_at: Option<i64>,
    /// The time of the last change.
    since: i64,
}

impl From<NamedRecurring> for RecurringView {
    fn from(named: NamedRecurring) -> Self {
        let task = &named.task;
        let headers = task.headers.iter();
        let headers = headers.map(|(name, value)| (name.to_owned(), value.to_owned()));
        Self {
            task_type: task.task_type.to_string(),
            every: task.every.clone(),
            zone: task.zone.clone(),
            message: MessageView::new(Some(task.message())),
            headers: headers.collect(),
            paused: task.is_paused,
            next_at: named.next_at.map(Timestamp::as_millis),
            since: task.since().as_millis(),
            id: named.id,
        }
    }
}

/// A part of a list.
#[derive(Clone, Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
struct PageQuery {
    /// The beginning of the page: `next` of the page before.
    cursor: Option<String>,
    /// The maximum number, up to 128; default 50.
    limit: Option<usize>,
}

/// A page of recurring tasks.
#[derive(Clone, Debug, Serialize, ToSchema)]
struct RecurringList {
    /// By id.
    recurring: Vec<RecurringView>,
    /// The cursor of the next page; absent after the last one.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<String>,
}

/// List the recurring tasks that are declared to the server and whose types the token covers. Those
/// that a plugin declares are not among them.
#[utoipa::path(
    get, operation_id = "recurring_list", path = "/v1/{namespace}/recurring", tag = "recurring",
    params(("namespace", description = "Namespace"), PageQuery),
    responses((status = 200, body = RecurringList), (status = "4XX", body = Problem), (status = "5XX", body = Problem)),
    security(("token" = ["read"]))
)]
async fn list(
    allowed: Allowed<Read>,
    Query(page): Query<PageQuery>,
) -> Result<Json<RecurringList>, Problem> {
    let limit = read_limit(page.limit, PAGE, MAX_BATCH)?;
    let page = recurring::list(&allowed, page.cursor.as_deref(), limit).await?;
    Ok(Json(RecurringList {
        recurring: page.recurring.into_iter().map(Into::into).collect(),
        next: page.next,
    }))
}

/// A recurring task.
#[utoipa::path(
    get, operation_id = "recurring", path = "/v1/{namespace}/recurring/{id}", tag = "recurring",
    params(("namespace", description = "Namespace"), ("id", description = "Id, 1 to 64 of `A-Z a-z 0-9 . _ - :`")),
    responses((status = 200, body = RecurringView), (status = "4XX", body = Problem), (status = "5XX", body = Problem)),
    security(("token" = ["read"]))
)]
async fn shown(
    allowed: Allowed<Read>,
    Path((_, id)): Path<(String, String)>,
) -> Result<Json<RecurringView>, Problem> {
    Ok(Json(recurring::get(&allowed, &id).await?.into()))
}

/// Declare a recurring task, or change it. Repeating it is harmless. It takes the scope `submit` as
/// well, for the type.
///
/// Every server of the namespace sends its occurrences, each once. At most one occurrence waits:
/// the next one is sent when it starts, so occurrences do not pile up while no worker runs. A
/// change replaces the waiting occurrence; one that runs or waits for a retry goes on.
#[utoipa::path(
    put, operation_id = "set_recurring", path = "/v1/{namespace}/recurring/{id}", tag = "recurring",
    params(("namespace", description = "Namespace"), ("id", description = "Id, 1 to 64 of `A-Z a-z 0-9 . _ - :`")),
    request_body(content = RecurringForm),
    responses((status = 200, body = RecurringView), (status = "4XX", body = Problem), (status = "5XX", body = Problem)),
    security(("token" = ["operate"]))
)]
async fn set(
    allowed: Allowed<Operate>,
    Path((_, id)): Path<(String, String)>,
    JsonBody(form): JsonBody<RecurringForm>,
) -> Result<Json<RecurringView>, Problem> {
    let set = recurring::set(&allowed, &id, form.task()?).await?;
    Ok(Json(set.into()))
}

/// Remove a recurring task and cancel its waiting occurrence. Answers 404 if there is none, as on a
/// second call.
#[utoipa::path(
    delete, operation_id = "remove_recurring", path = "/v1/{namespace}/recurring/{id}", tag = "recurring",
    params(("namespace", description = "Namespace"), ("id", description = "Id")),
    responses((status = 204), (status = "4XX", body = Problem), (status = "5XX", body = Problem)),
    security(("token" = ["operate"]))
)]
async fn remove(
    allowed: Allowed<Operate>,
    Path((_, id)): Path<(String, String)>,
) -> Result<StatusCode, Problem> {
    recurring::remove(&allowed, &id).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Send no occurrences until it is resumed, and cancel the waiting one. Repeating it is harmless.
#[utoipa::path(
    post, operation_id = "pause_recurring", path = "/v1/{namespace}/recurring/{id}/pause", tag = "recurring",
    params(("namespace", description = "Namespace"), ("id", description = "Id")),
    responses((status = 200, body = RecurringView), (status = "4XX", body = Problem), (status = "5XX", body = Problem)),
    security(("token" = ["operate"]))
)]
async fn pause(
    allowed: Allowed<Operate>,
    Path((_, id)): Path<(String, String)>,
) -> Result<Json<RecurringView>, Problem> {
    Ok(Json(recurring::pause(&allowed, &id, true).await?.into()))
}

/// End the pause of a recurring task. Repeating it is harmless.
#[utoipa::path(
    post, operation_id = "resume_recurring", path = "/v1/{namespace}/recurring/{id}/resume", tag = "recurring",
    params(("namespace", description = "Namespace"), ("id", description = "Id")),
    responses((status = 200, body = RecurringView), (status = "4XX", body = Problem), (status = "5XX", body = Problem)),
    security(("token" = ["operate"]))
)]
async fn resume(
    allowed: Allowed<Operate>,
    Path((_, id)): Path<(String, String)>,
) -> Result<Json<RecurringView>, Problem> {
    Ok(Json(recurring::pause(&allowed, &id, false).await?.into()))
}
