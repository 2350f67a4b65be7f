//! Changes of every matching task.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::Path;
use delayq_plugin::{BulkReport, TaskFilter};
use delayq_service::access::Operate;
use delayq_service::app::App;
use delayq_service::context::Allowed;
use delayq_service::json::distinct;
use delayq_service::operation::{AllChange, WantedTasks};
use delayq_service::problem::Problem;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::answer::ChangeReportForm;
use super::extract::JsonBody;
use super::form::{TextOrNumber, read_state, read_time, read_when, text_or_number};

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(cancel_all))
        .routes(routes!(reschedule_all))
}

/// The tasks to change. All conditions must hold; a blank text is refused.
#[derive(Clone, Debug, Default, Deserialize, Serialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Matching {
    /// Every task of the type. Must be explicit, so that it never happens by mistake.
    all: bool,
    /// Only tasks whose id has this prefix.
    id_prefix: Option<String>,
    /// Only tasks with this group label.
    group: Option<String>,
    /// Only tasks with these headers.
    #[serde(deserialize_with = "distinct")]
    headers: BTreeMap<String, String>,
    /// Only scheduled tasks due before this time: milliseconds since the epoch, or RFC 3339.
    #[serde(default, deserialize_with = "text_or_number")]
    #[schema(value_type = Option<TextOrNumber>)]
    due_before: Option<String>,
    /// Only scheduled tasks due after this time.
    #[serde(default, deserialize_with = "text_or_number")]
    #[schema(value_type = Option<TextOrNumber>)]
    due_after: Option<String>,
    /// `scheduled` or `running`; the default for a cancel is both.
    state: Option<String>,
    /// For a reschedule: the new delay, from now.
    #[serde(default, deserialize_with = "text_or_number")]
    #[schema(value_type = Option<TextOrNumber>)]
    delay: Option<String>,
    /// For a reschedule: the new time.
    #[serde(default, deserialize_with = "text_or_number")]
    #[schema(value_type = Option<TextOrNumber>)]
    at: Option<String>,
    /// Change nothing, and return the number of tasks.
    dry_run: bool,
}

impl Matching {
    pub(super) fn filter(&self) -> Result<TaskFilter, Problem> {
        let time = |text: &Option<String>| text.as_deref().map(read_time).transpose();
        let state = self.state.as_deref().map(|text| read_state(Some(text)));
        let wanted = WantedTasks {
            all: self.all,
            id_prefix: self.id_prefix.clone(),
            group: self.group.clone(),
            headers: self.headers.clone(),
            due_before: time(&self.due_before)?,
            due_after: time(&self.due_after)?,
            state: state.transpose()?,
        };
        wanted.filter()
    }
}

/// Cancel every matching task; running ones are asked to stop. Repeating it is harmless.
#[utoipa::path(
    post, path = "/v1/{namespace}/types/{task_type}/cancel-all", tag = "many tasks",
    params(("namespace", description = "Namespace"), ("task_type", description = "Type")),
    request_body(content = Matching),
    responses((status = 200, body = ChangeReportForm, description = "How many"), (status = "4XX", body = Problem), (status = "5XX", body = Problem)),
    security(("token" = ["operate"]))
)]
async fn cancel_all(
    allowed: Allowed<Operate>,
    Path((_, task_type)): Path<(String, String)>,
    JsonBody(matching): JsonBody<Matching>,
) -> Result<Json<BulkReport>, Problem> {
    if matching.delay.is_some() || matching.at.is_some() {
        return Err(Problem::bad_request("delay and at: only of a reschedule"));
    }
    let (filter, operator) = (matching.filter()?, allowed.operator());
    let made = AllChange::Cancel.make(&operator, &task_type, &filter, matching.dry_run);
    Ok(Json(allowed.while_admitted(made).await?))
}

/// Move every matching scheduled task to one time. Repeating it is harmless, but a delay starts
/// again.
#[utoipa::path(
    post, path = "/v1/{namespace}/types/{task_type}/reschedule-all", tag = "many tasks",
    params(("namespace", description = "Namespace"), ("task_type", description = "Type")),
    request_body(content = Matching),
    responses((status = 200, body = ChangeReportForm, description = "How many"), (status = "4XX", body = Problem), (status = "5XX", body = Problem)),
    security(("token" = ["operate"]))
)]
async fn reschedule_all(
    allowed: Allowed<Operate>,
    Path((_, task_type)): Path<(String, String)>,
    JsonBody(matching): JsonBody<Matching>,
) -> Result<Json<BulkReport>, Problem> {
    let when = read_when(matching.delay.clone(), matching.at.clone())?;
    let when = when.ok_or_else(|| Problem::bad_request("give delay or at"))?;
    let (filter, operator) = (matching.filter()?, allowed.operator());
    let change = AllChange::Reschedule(when);
    let made = change.make(&operator, &task_type, &filter, matching.dry_run);
    Ok(Json(allowed.while_admitted(made).await?))
}
