//! Dead letters: groups, requeue at a rate, and discard.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::{Path, State};
use axum::response::{IntoResponse, Response};
use delayq_ops::{DeadGroups, DeadSelection};
use delayq_plugin::TaskFilter;
use delayq_service::access::{Operate, Read, TokenBook};
use delayq_service::app::App;
use delayq_service::context::Allowed;
use delayq_service::operation::{DeadChange, WantedDead};
use delayq_service::problem::Problem;
use serde::{Deserialize, Serialize};
use serde_json::json;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::extract::JsonBody;
use super::form::{TextOrNumber, read_span, read_time, text_or_number};
use super::lines::answer;

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(groups))
        .routes(routes!(requeue))
        .routes(routes!(discard))
}

/// The dead tasks to change. All conditions must hold; a blank text is refused.
#[derive(Clone, Debug, Default, Deserialize, Serialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Dead {
    /// Only these ids; all other conditions are ignored.
    ids: Vec<String>,
    /// Every dead task of the type. Must be explicit, so that it never happens by mistake.
    all: bool,
    /// Only tasks whose id has this prefix.
    id_prefix: Option<String>,
    /// Only tasks with this group label.
    group: Option<String>,
    /// Only tasks whose last error contains this text.
    error_contains: Option<String>,
    /// Only tasks in one group of dead tasks, given by its `error`.
    error_like: Option<String>,
    /// Only tasks that died without an error: the group whose `error` is empty.
    without_error: bool,
    /// Only tasks that died before this time: milliseconds since the epoch, or RFC 3339.
    #[serde(default, deserialize_with = "text_or_number")]
    #[schema(value_type = Option<TextOrNumber>)]
    died_before: Option<String>,
    /// The maximum number of tasks, oldest death first.
    limit: Option<u64>,
    /// For a requeue: the interval between the due times of the tasks: milliseconds, or a span such
    /// as `100ms`; default 0, all at once.
    #[serde(default, deserialize_with = "text_or_number")]
    #[schema(value_type = Option<TextOrNumber>)]
    interval: Option<String>,
    /// Change nothing, and return the number of tasks.
    dry_run: bool,
}

/// A line of progress; the last line has the result.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(untagged)]
enum Progress {
    /// The change goes on.
    Going {
        /// The number of tasks done.
        done: u64,
        /// The number of tasks in all.
        of: u64,
    },
    /// The last line of a complete change.
    Ended {
        /// The number of changed tasks.
        changed: u64,
    },
    /// The last line of an incomplete change.
    Failed {
        /// The reason.
        problem: Problem,
    },
}

impl Dead {
    pub(super) fn selection(&self, task_type: String) -> Result<DeadSelection, Problem> {
        let died_before = self.died_before.as_deref().map(read_time);
        let wanted = WantedDead {
            ids: self.ids.clone(),
            all: self.all,
            id_prefix: self.id_prefix.clone(),
            group: self.group.clone(),
            error_contains: self.error_contains.clone(),
            error_like: self.error_like.clone(),
            without_error: self.without_error,
            died_before: died_before.transpose()?,
            limit: self.limit,
        };
        wanted.selection(task_type)
    }
}

/// Dead tasks, grouped by their error.
#[utoipa::path(
    get, operation_id = "dead_groups", path = "/v1/{namespace}/types/{task_type}/dead/groups", tag = "dead letters",
    params(("namespace", description = "Namespace"), ("task_type", description = "Type")),
    responses((status = 200, body = serde_json::Value), (status = "4XX", body = Problem), (status = "5XX", body = Problem)),
    security(("token" = ["read"]))
)]
async fn groups(
    allowed: Allowed<Read>,
    Path((_, task_type)): Path<(String, String)>,
) -> Result<Json<DeadGroups>, Problem> {
    let every = TaskFilter::new();
    let groups = delayq_ops::dead_groups(&allowed.space.tasks, &task_type, &every);
    Ok(Json(groups.await?))
}

/// Schedule dead tasks again and reset their attempts.
///
/// The answer has lines of progress, and at last `{"changed": 42}` or a problem. With an interval,
/// the call takes as long as all intervals together; if the client disconnects, the remaining tasks
/// stay dead. Repeating it is harmless.
#[utoipa::path(
    post, operation_id = "requeue_dead", path = "/v1/{namespace}/types/{task_type}/dead/requeue", tag = "dead letters",
    params(("namespace", description = "Namespace"), ("task_type", description = "Type")),
    request_body(content = Dead),
    responses((status = 200, content((Progress = "application/x-ndjson"), (serde_json::Value = "application/json")), description = "Lines of JSON; with `dry_run` one object"), (status = "4XX", body = Problem), (status = "5XX", body = Problem)),
    security(("token" = ["operate"]))
)]
async fn requeue(
    allowed: Allowed<Operate>,
    State(app): State<App>,
    Path((_, task_type)): Path<(String, String)>,
    JsonBody(dead): JsonBody<Dead>,
) -> Result<Response, Problem> {
    let interval = dead.interval.as_deref();
    let interval = interval.map_or(Ok(Duration::ZERO), read_span)?;
    let requeue = DeadChange::Requeue { interval };
    change(&allowed, Arc::clone(&app.tokens), task_type, &dead, requeue).await
}

/// Remove dead tasks for good.
///
/// The answer has lines, as for a requeue. Repeating it is harmless.
#[utoipa::path(
    post, operation_id = "discard_dead", path = "/v1/{namespace}/types/{task_type}/dead/discard", tag = "dead letters",
    params(("namespace", description = "Namespace"), ("task_type", description = "Type")),
    request_body(content = Dead),
    responses((status = 200, content((Progress = "application/x-ndjson"), (serde_json::Value = "application/json")), description = "Lines of JSON; with `dry_run` one object"), (status = "4XX", body = Problem), (status = "5XX", body = Problem)),
    security(("token" = ["operate"]))
)]
async fn discard(
    allowed: Allowed<Operate>,
    State(app): State<App>,
    Path((_, task_type)): Path<(String, String)>,
    JsonBody(dead): JsonBody<Dead>,
) -> Result<Response, Problem> {
    if dead.interval.is_some() {
        return Err(Problem::bad_request("interval: only of a requeue"));
    }
    change(
        &allowed,
        Arc::clone(&app.tokens),
        task_type,
        &dead,
        DeadChange::Discard,
    )
    .await
}

/// Makes the change, or reports how many tasks it would affect.
async fn change(
    allowed: &Allowed<Operate>,
    tokens: Arc<TokenBook>,
    task_type: String,
    dead: &Dead,
    change: DeadChange,
) -> Result<Response, Problem> {
    let selection = dead.selection(task_type)?;
    if dead.dry_run {
        let count = selection.count(&allowed.space.tasks).await?;
        let answer = json!({"would_change": count, "dry_run": true});
        return Ok(Json(answer).into_response());
    }
    let (operator, caller) = (allowed.operator(), allowed.caller.clone());
    Ok(answer(move |lines| async move {
        let progress = |done, of| lines.try_send(&Progress::Going { done, of });
        let has_ended = caller.ended(&tokens);
        let changed = change.make(&operator, &selection, has_ended, progress);
        let last = match changed.await {
            Ok(changed) => Progress::Ended { changed },
            Err(problem) => Progress::Failed { problem },
        };
        lines.send(&[last]).await.ok();
    }))
}
