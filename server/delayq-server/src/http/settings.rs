//! Settings of a type, purge, drop and audit.

use std::time::Duration;

use axum::Json;
use axum::extract::Path;
use delayq_plugin::{Rate, TypeSettings};
use delayq_service::access::{Admin, Operate};
use delayq_service::app::App;
use delayq_service::context::Allowed;
use delayq_service::problem::Problem;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Value, json};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::extract::{JsonBody, Query};
use super::form::{TextOrNumber, read_span, read_state, text_or_number};

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(configure))
        .routes(routes!(purge))
        .routes(routes!(drop_type))
        .routes(routes!(audit))
}

/// Settings of a type. Absent settings stay as they are; `null` removes a limit.
#[derive(Clone, Debug, Default, Deserialize, Serialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
#[allow(clippy::option_option, reason = "absent, null and a value differ")]
pub(super) struct Settings {
    /// The maximum number of scheduled tasks; beyond it, new tasks are refused.
    #[serde(deserialize_with = "named")]
    #[schema(value_type = Option<u64>)]
    max_pending: Option<Option<u64>>,
    /// The maximum number of running tasks, over all workers.
    #[serde(deserialize_with = "named")]
    #[schema(value_type = Option<u32>)]
    fleet_concurrency: Option<Option<u32>>,
    /// The rate of task starts, over all workers.
    #[serde(deserialize_with = "named")]
    #[schema(value_type = Option<RateForm>)]
    fleet_rate: Option<Option<RateForm>>,
    /// The minimum number of shards, 1 to 256; it is never lowered.
    shards: Option<u32>,
}

/// A rate of starts.
#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct RateForm {
    /// The number.
    starts: u32,
    /// The time span: milliseconds, or a span such as `1m`; default `1s`.
    #[serde(default, deserialize_with = "text_or_number")]
    #[schema(value_type = Option<TextOrNumber>)]
    per: Option<String>,
    /// The number of starts at once after an idle time.
    burst: Option<u32>,
}

/// Tells a null from an absent field.
#[allow(clippy::option_option, reason = "absent, null and a value differ")]
fn named<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
) -> Result<Option<Option<T>>, D::Error> {
    Option::deserialize(deserializer).map(Some)
}

impl Settings {
    /// The change that the settings describe.
    pub(super) fn change(self) -> Result<TypeSettings, Problem> {
        let mut change = TypeSettings::default();
        if let Some(most) = self.max_pending {
            change = change.max_pending(most);
        }
        if let Some(most) = self.fleet_concurrency {
            change = change.fleet_concurrency(most);
        }
        if let Some(rate) = self.fleet_rate {
            let rate = rate.map(|rate| rate.rate()).transpose()?;
            change = change.fleet_rate(rate);
        }
        if let Some(shards) = self.shards {
            change = change.shards(shards);
        }
        Ok(change)
    }
}

impl RateForm {
    fn rate(&self) -> Result<Rate, Problem> {
        let per = self.per.as_deref();
        let per = per.map_or(Ok(Duration::from_secs(1)), read_span)?;
        let rate = Rate::new(self.starts, per);
        Ok(self.burst.map_or(rate, |burst| rate.with_burst(burst)))
    }
}

/// The option to make a type.
#[derive(Clone, Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
struct CreateOption {
    /// Also make a type that is not listed. Without it such a name is `unknown-type`.
    create: bool,
}

/// Change settings of a type for all programs. Repeating it is harmless.
#[utoipa::path(
    patch, path = "/v1/{namespace}/types/{task_type}/settings", tag = "types",
    params(("namespace", description = "Namespace"), ("task_type", description = "Type"), CreateOption),
    request_body(content = Settings),
    responses((status = 200, body = serde_json::Value, description = "The counts and limits of the type"), (status = "4XX", body = Problem), (status = "5XX", body = Problem)),
    security(("token" = ["admin"]))
)]
async fn configure(
    allowed: Allowed<Admin>,
    Path((_, task_type)): Path<(String, String)>,
    Query(option): Query<CreateOption>,
    JsonBody(settings): JsonBody<Settings>,
) -> Result<Json<delayq_plugin::TypeStats>, Problem> {
    let change = settings.change()?;
    let operator = allowed.operator().creating(option.create);
    let configured = operator.configure_type(&task_type, &change).await;
    configured.map_err(Problem::or_create)?;
    Ok(Json(allowed.space.tasks.stats(&task_type).await?))
}

/// The state to purge, and the confirmation.
#[derive(Clone, Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct PurgeQuery {
    /// `scheduled` or `dead`: removed for good; `done`, `cancelled` or `expired`: forgotten.
    state: String,
    /// The name of the type again, to confirm.
    confirm: String,
}

/// Remove every task of a type in one state. Repeating it is harmless.
#[utoipa::path(
    post, path = "/v1/{namespace}/types/{task_type}/purge", tag = "types",
    params(("namespace", description = "Namespace"), ("task_type", description = "Type"), PurgeQuery),
    responses((status = 200, body = serde_json::Value, description = "How many"), (status = "4XX", body = Problem), (status = "5XX", body = Problem)),
    security(("token" = ["admin"]))
)]
async fn purge(
    allowed: Allowed<Admin>,
    Path((_, task_type)): Path<(String, String)>,
    Query(purge): Query<PurgeQuery>,
) -> Result<Json<Value>, Problem> {
    if purge.confirm != task_type {
        let text = format!("confirm={}: write confirm={task_type}", purge.confirm);
        return Err(Problem::bad_request(text));
    }
    let state = read_state(Some(&purge.state))?;
    let operator = allowed.operator();
    let purged = async { Ok(operator.purge(&task_type, state).await?) };
    let removed = allowed.while_admitted(purged).await?;
    Ok(Json(json!({"removed": removed})))
}

/// Remove a type without tasks from the list. Repeating it is harmless.
#[utoipa::path(
    delete, path = "/v1/{namespace}/types/{task_type}", tag = "types",
    params(("namespace", description = "Namespace"), ("task_type", description = "Type")),
    responses((status = 200, body = serde_json::Value), (status = 409, body = Problem, description = "It has tasks"), (status = "4XX", body = Problem), (status = "5XX", body = Problem)),
    security(("token" = ["admin"]))
)]
async fn drop_type(
    allowed: Allowed<Admin>,
    Path((_, task_type)): Path<(String, String)>,
) -> Result<Json<Value>, Problem> {
    allowed.operator().drop_type(&task_type).await?;
    Ok(Json(json!({"outcome": "dropped"})))
}

/// The option to repair.
#[derive(Clone, Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
struct RepairOption {
    /// Repair what can be repaired, so that no task is lost.
    repair: bool,
}

/// The result of an audit.
#[derive(Clone, Debug, Serialize, ToSchema)]
struct Audited {
    /// The number of entries read.
    checked: u64,
    /// The first 1,000 faults.
    problems: Vec<Fault>,
    /// The number of faults.
    problem_count: usize,
}

/// A fault.
#[derive(Clone, Debug, Serialize, ToSchema)]
struct Fault {
    /// The faulty task or part of the store.
    id: String,
    /// The description of the fault.
    what: String,
    /// True if it was repaired.
    repaired: bool,
}

/// Check the structure of a type: every task must be in exactly one state. Reads all of its tasks.
#[utoipa::path(
    post, path = "/v1/{namespace}/types/{task_type}/audit", tag = "types",
    params(("namespace", description = "Namespace"), ("task_type", description = "Type"), RepairOption),
    responses((status = 200, body = Audited), (status = "4XX", body = Problem), (status = "5XX", body = Problem)),
    security(("token" = ["operate"]))
)]
async fn audit(
    allowed: Allowed<Operate>,
    Path((_, task_type)): Path<(String, String)>,
    Query(audit): Query<RepairOption>,
) -> Result<Json<Audited>, Problem> {
    let report = if audit.repair {
        allowed.operator().repair(&task_type).await?
    } else {
        allowed.space.tasks.audit(&task_type, false).await?
    };
    let problem_count = report.problems.len();
    let problems = report.problems.into_iter().take(1_000);
    let problems = problems.map(|one| Fault {
        id: one.id,
        what: one.what,
        repaired: one.repaired,
    });
    Ok(Json(Audited {
        checked: report.checked,
        problems: problems.collect(),
        problem_count,
    }))
}
