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

/// Which dead tasks. All conditions have to hold; a text of nothing but blanks is refused.
#[derive(Clone, Debug, Default, Deserialize, Serialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Dead {
    /// These; other conditions do not count then.
    ids: Vec<String>,
    /// Every dead task of the type: written out, so that nobody means it by mistake.
    all: bool,
    /// Those whose id begins so.
    id_prefix: Option<String>,
    /// Those of this group label.
    group: Option<String>,
    /// Those whose last error contains this text.
    error_contains: Option<String>,
    /// Those of one of the groups of dead tasks, by its `error`.
    error_like: Option<String>,
    /// Those that died without an error: the group whose `error` is empty.
    without_error: bool,
    /// Those that died before: milliseconds since the epoch, or RFC 3339.
    #[serde(default, deserialize_with = "text_or_number")]
    #[schema(value_type = Option<TextOrNumber>)]
    died_before: Option<String>,
    /// The first so many, by their time of death.
    limit: Option<u64>,
    /// Of a requeue: how long after each other they become due: milliseconds, or a span such as
    /// `100ms`; default 0, all at once.
    #[serde(default, deserialize_with = "text_or_number")]
    #[schema(value_type = Option<TextOrNumber>)]
    interval: Option<String>,
    /// Change nothing, and say how many it is about.
    dry_run: bool,
}

/// A line about work that goes on, and in the last line how it ended.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(untagged)]
enum Progress {
    /// It goes on.
    Going {
        /// How many are done.
        done: u64,
        /// Of how many.
        of: u64,
    },
    /// The last line.
    Ended {
        /// How many were changed.
        changed: u64,
    },
    /// The last line, where it was not done to its end.
    Failed {
        /// Why.
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

/// Dead tasks by what killed them.
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

/// Schedule dead tasks again, their attempts counted anew.
///
/// The answer is lines: how many are done, of how many, and at last `{"changed": 42}` or a problem.
/// With an interval it takes as long as the intervals do: a client that goes away leaves the rest
/// dead. Repeating it is harmless.
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
    change(&allowed, app.tokens, task_type, &dead, requeue).await
}

/// Remove dead tasks for good.
///
/// The answer is lines, as that of a requeue. Repeating it is harmless.
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
    change(&allowed, app.tokens, task_type, &dead, DeadChange::Discard).await
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
