//! Changes of every task that matches.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::Path;
use delayq_plugin::{BulkError, BulkReport, TaskFilter, TaskState};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::extract::JsonBody;
use super::form::{TextOrNumber, read_state, read_time, read_when, text_or_number};
use crate::access::{Allowed, Operate};
use crate::app::App;
use crate::problem::Problem;

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(cancel_all))
        .routes(routes!(reschedule_all))
}

/// Which tasks. All conditions have to hold.
#[derive(Clone, Debug, Default, Deserialize, Serialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Matching {
    /// Every task of the type: written out, so that nobody means it by mistake.
    all: bool,
    /// Those whose id begins so.
    id_prefix: Option<String>,
    /// Those of this group label.
    group: Option<String>,
    /// Those with these headers.
    headers: BTreeMap<String, String>,
    /// Scheduled ones due before: milliseconds since the epoch, or RFC 3339.
    #[serde(default, deserialize_with = "text_or_number")]
    #[schema(value_type = Option<TextOrNumber>)]
    due_before: Option<String>,
    /// Scheduled ones due after it.
    #[serde(default, deserialize_with = "text_or_number")]
    #[schema(value_type = Option<TextOrNumber>)]
    due_after: Option<String>,
    /// `scheduled` or `running`; without it, both for a cancel.
    state: Option<String>,
    /// Of a reschedule: the new delay, from now.
    #[serde(default, deserialize_with = "text_or_number")]
    #[schema(value_type = Option<TextOrNumber>)]
    delay: Option<String>,
    /// Of a reschedule: the new time.
    #[serde(default, deserialize_with = "text_or_number")]
    #[schema(value_type = Option<TextOrNumber>)]
    at: Option<String>,
    /// Change nothing, and say how many it is about.
    dry_run: bool,
}

impl Matching {
    pub(super) fn filter(&self) -> Result<TaskFilter, Problem> {
        let is_narrowed = self.id_prefix.is_some()
            || self.group.is_some()
            || !self.headers.is_empty()
            || self.due_before.is_some()
            || self.due_after.is_some();
        if !is_narrowed && !self.all {
            let text = "it has no condition: write \"all\": true to change every task of the type";
            return Err(Problem::bad_request(text));
        }
        let mut filter = if self.all {
            TaskFilter::all()
        } else {
            TaskFilter::new()
        };
        if let Some(prefix) = &self.id_prefix {
            filter = filter.id_prefix(prefix);
        }
        if let Some(group) = &self.group {
            filter = filter.group(group);
        }
        for (name, value) in &self.headers {
            filter = filter.header(name, value);
        }
        if let Some(time) = &self.due_before {
            filter = filter.due_before(read_time(time)?);
        }
        if let Some(time) = &self.due_after {
            filter = filter.due_after(read_time(time)?);
        }
        if let Some(state) = &self.state {
            let state: TaskState = read_state(Some(state))?;
            filter = filter.state(state);
        }
        Ok(filter)
    }
}

/// Cancel every task that matches; running ones are asked to stop. Repeating it is harmless.
#[utoipa::path(
    post, path = "/v1/{namespace}/types/{task_type}/cancel-all", tag = "many tasks",
    params(("namespace", description = "Namespace"), ("task_type", description = "Type")),
    request_body(content = Matching),
    responses((status = 200, body = serde_json::Value, description = "How many"), (status = "4XX", body = Problem), (status = "5XX", body = Problem)),
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
    let filter = matching.filter()?;
    let done = if matching.dry_run {
        let tasks = &allowed.space.tasks;
        tasks.cancel_all(&task_type, &filter).dry_run().await
    } else {
        allowed.operator().cancel_all(&task_type, &filter).await
    };
    report(done)
}

/// Move every scheduled task that matches to one time. Repeating it is harmless, but a delay counts
/// anew.
#[utoipa::path(
    post, path = "/v1/{namespace}/types/{task_type}/reschedule-all", tag = "many tasks",
    params(("namespace", description = "Namespace"), ("task_type", description = "Type")),
    request_body(content = Matching),
    responses((status = 200, body = serde_json::Value, description = "How many"), (status = "4XX", body = Problem), (status = "5XX", body = Problem)),
    security(("token" = ["operate"]))
)]
async fn reschedule_all(
    allowed: Allowed<Operate>,
    Path((_, task_type)): Path<(String, String)>,
    JsonBody(matching): JsonBody<Matching>,
) -> Result<Json<BulkReport>, Problem> {
    let when = read_when(matching.delay.clone(), matching.at.clone())?;
    let when = when.ok_or_else(|| Problem::bad_request("give delay or at"))?;
    let filter = matching.filter()?;
    let done = if matching.dry_run {
        let tasks = &allowed.space.tasks;
        let change = tasks.reschedule_all(&task_type, &filter, when);
        change.dry_run().await
    } else {
        let operator = allowed.operator();
        operator.reschedule_all(&task_type, &filter, when).await
    };
    report(done)
}

fn report(done: Result<BulkReport, BulkError>) -> Result<Json<BulkReport>, Problem> {
    match done {
        Ok(report) => Ok(Json(report)),
        Err(failed) => {
            let text = failed.to_string();
            Err(Problem::from(failed.error).saying(text))
        }
    }
}
