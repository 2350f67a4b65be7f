//! Dead letters: groups, requeue with a rate, discard.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::{Path, State};
use axum::response::{IntoResponse, Response};
use delayq_ops::{DeadGroups, DeadSelection};
use delayq_plugin::{Error, TaskFilter, TaskId};
use serde::{Deserialize, Serialize};
use serde_json::json;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::extract::JsonBody;
use super::form::{TextOrNumber, read_span, read_time, text_or_number};
use super::lines::answer;
use crate::access::{Allowed, Operate, Read, TokenBook};
use crate::app::App;
use crate::problem::Problem;

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(groups))
        .routes(routes!(requeue))
        .routes(routes!(discard))
}

/// Which dead tasks. All conditions have to hold.
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
        let mut filter = TaskFilter::new();
        if let Some(prefix) = &self.id_prefix {
            filter = filter.id_prefix(prefix);
        }
        if let Some(group) = &self.group {
            filter = filter.group(group);
        }
        let ids = self.ids.iter().map(TaskId::new);
        let ids: Vec<_> = ids.collect::<Result<_, Error>>()?;
        let mut selection = DeadSelection::of(task_type).ids(ids).filter(filter);
        if let Some(text) = &self.error_contains {
            selection = selection.error(text);
        }
        if let Some(error) = &self.error_like {
            selection = selection.group(error);
        }
        if let Some(time) = &self.died_before {
            selection = selection.died_before(read_time(time)?);
        }
        if let Some(limit) = self.limit {
            selection = selection.limit(limit);
        }
        if selection.is_all() && !self.all {
            let text = "it has no condition: write \"all\": true for every dead task of the type";
            return Err(Problem::bad_request(text));
        }
        Ok(selection)
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
    change(&allowed, app.tokens, task_type, &dead, Some(interval)).await
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
    change(&allowed, app.tokens, task_type, &dead, None).await
}

/// Requeues with an interval, discards without one.
async fn change(
    allowed: &Allowed<Operate>,
    tokens: Arc<TokenBook>,
    task_type: String,
    dead: &Dead,
    interval: Option<Duration>,
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
        let change = async {
            match interval {
                Some(interval) => operator.requeue(&selection, interval, progress).await,
                None => operator.discard(&selection, progress).await,
            }
        };
        // It may take hours: what a revoked token has begun is left as when its client goes away.
        let changed = tokio::select! {
            changed = change => changed.map_err(Problem::from),
            problem = caller.ended(&tokens) => Err(problem),
        };
        let last = match changed {
            Ok(changed) => Progress::Ended { changed },
            Err(problem) => Progress::Failed { problem },
        };
        lines.send(&[last]).await.ok();
    }))
}
