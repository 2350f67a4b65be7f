//! Settlement of an attempt, and extension of its lock.

use std::time::Duration;

use axum::Json;
use axum::extract::Path;
use axum::http::HeaderMap;
use delayq_core::time::MAX_DELAY;
use delayq_plugin::store::{ExtendOutcome, SettleOutcome};
use delayq_plugin::{TaskId, TaskType};
use delayq_service::access::Work;
use delayq_service::app::App;
use delayq_service::context::Allowed;
use delayq_service::problem::Problem;
use delayq_service::pull::{ClientEnd, Ending, LockText};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::extract::{Body, Query};
use super::form::read_span;
use super::pull::read_lock_for;
use super::reply::read_reply;

/// The largest `max_attempts` that a settlement may give.
const MAX_ATTEMPTS: u32 = 1_000_000;

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(done))
        .routes(routes!(fail))
        .routes(routes!(release))
        .routes(routes!(extend))
}

/// The lock of an attempt.
#[derive(Clone, Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct LockQuery {
    /// The lock from the claim's answer.
    lock: String,
}

/// The failure of an attempt.
#[derive(Clone, Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct FailQuery {
    /// The lock from the claim's answer.
    lock: String,
    /// The wait before the next attempt: milliseconds, or a span such as `30s`. Default: 1 s, 2 s,
    /// 4 s and so on, each up to 10 % shorter or longer.
    retry_after: Option<String>,
    /// Attempts after which the task is dead, the first included; default 5.
    max_attempts: Option<u32>,
    /// If `true`, the task is not retried and is dead.
    #[serde(default)]
    dead: bool,
}

/// The release of an attempt.
#[derive(Clone, Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct GivenBack {
    /// The lock from the claim's answer.
    lock: String,
    /// The wait before the task is due again: milliseconds, or a span such as `30s`; default 0.
    after: Option<String>,
}

/// The extension of a lock.
#[derive(Clone, Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct Longer {
    /// The lock from the claim's answer.
    lock: String,
    /// The lock time from now; default `30s`.
    lock_for: Option<String>,
}

/// The stored end of an attempt.
#[derive(Clone, Debug, Serialize, ToSchema)]
struct Settled {
    /// `settled`.
    outcome: &'static str,
}

/// An extended lock.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(super) struct Extended {
    /// `extended`; or `cancel_requested`: extended too, but a cancel was requested, so stop.
    pub(super) outcome: &'static str,
    /// The time when the lock expires, by the store's clock.
    pub(super) lock_until: i64,
}

/// The attempt succeeded: the task is done. Repeating it is harmless.
///
/// A body is the reply to callers that wait for the task. It has at most 64 KiB and is kept with
/// its content type for an hour. The default content type of curl's `--data` counts as text.
#[utoipa::path(
    post, path = "/v1/{namespace}/types/{task_type}/tasks/{id}/done", tag = "work",
    params(("namespace", description = "Namespace"), ("task_type", description = "Type"), ("id", description = "Id"), LockQuery),
    request_body(content = Option<Vec<u8>>, description = "The reply, if there is one", content_type = "*/*"),
    responses((status = 200, body = Settled), (status = 409, body = Problem, description = "The lock is lost"), (status = "4XX", body = Problem), (status = "5XX", body = Problem)),
    security(("token" = ["work"]))
)]
async fn done(
    allowed: Allowed<Work>,
    Path((_, task_type, id)): Path<(String, String, String)>,
    Query(held): Query<LockQuery>,
    headers: HeaderMap,
    Body(body): Body,
) -> Result<Json<Settled>, Problem> {
    let end = ClientEnd::Done {
        reply: read_reply(&headers, body)?,
    };
    settle(&allowed, &task_type, &id, &held.lock, end).await
}

/// The attempt failed: the task is retried later, or is dead. Repeating it is harmless.
///
/// The body is the error, for people to read; it is cut to 1,024 bytes.
#[utoipa::path(
    post, path = "/v1/{namespace}/types/{task_type}/tasks/{id}/fail", tag = "work",
    params(("namespace", description = "Namespace"), ("task_type", description = "Type"), ("id", description = "Id"), FailQuery),
    request_body(content = String, description = "The error", content_type = "text/plain"),
    responses((status = 200, body = Settled), (status = 409, body = Problem, description = "The lock is lost"), (status = "4XX", body = Problem), (status = "5XX", body = Problem)),
    security(("token" = ["work"]))
)]
async fn fail(
    allowed: Allowed<Work>,
    Path((_, task_type, id)): Path<(String, String, String)>,
    Query(failure): Query<FailQuery>,
    Body(error): Body,
) -> Result<Json<Settled>, Problem> {
    let error = String::from_utf8_lossy(&error).into_owned();
    let end = failed(
        error,
        failure.retry_after.as_deref(),
        failure.max_attempts,
        failure.dead,
    )?;
    settle(&allowed, &task_type, &id, &failure.lock, end).await
}

/// Release the task, which costs no attempt. Repeating it is harmless.
#[utoipa::path(
    post, path = "/v1/{namespace}/types/{task_type}/tasks/{id}/release", tag = "work",
    params(("namespace", description = "Namespace"), ("task_type", description = "Type"), ("id", description = "Id"), GivenBack),
    responses((status = 200, body = Settled), (status = 409, body = Problem, description = "The lock is lost"), (status = "4XX", body = Problem), (status = "5XX", body = Problem)),
    security(("token" = ["work"]))
)]
async fn release(
    allowed: Allowed<Work>,
    Path((_, task_type, id)): Path<(String, String, String)>,
    Query(back): Query<GivenBack>,
) -> Result<Json<Settled>, Problem> {
    let after = back
        .after
        .as_deref()
        .map_or(Ok(Duration::ZERO), read_wait_again)?;
    let end = ClientEnd::Released { after };
    settle(&allowed, &task_type, &id, &back.lock, end).await
}

/// Extend the lock. Repeating it is harmless.
#[utoipa::path(
    post, path = "/v1/{namespace}/types/{task_type}/tasks/{id}/extend", tag = "work",
    params(("namespace", description = "Namespace"), ("task_type", description = "Type"), ("id", description = "Id"), Longer),
    responses((status = 200, body = Extended), (status = 409, body = Problem, description = "The lock is lost"), (status = "4XX", body = Problem), (status = "5XX", body = Problem)),
    security(("token" = ["work"]))
)]
async fn extend(
    allowed: Allowed<Work>,
    Path((_, task_type, id)): Path<(String, String, String)>,
    Query(longer): Query<Longer>,
) -> Result<Json<Extended>, Problem> {
    let lock_for = read_lock_for(longer.lock_for.as_deref())?;
    let task_type = TaskType::new(task_type)?;
    let locks = vec![(TaskId::new(&id)?, read_lock(&longer.lock)?)];
    let outcomes = allowed
        .space
        .pull
        .extend(&task_type, locks, lock_for)
        .await?;
    match outcomes.first().and_then(extended) {
        Some(extended) => Ok(Json(extended)),
        None => Err(lost(&task_type, &id)),
    }
}

async fn settle(
    allowed: &Allowed<Work>,
    task_type: &str,
    id: &str,
    lock: &str,
    end: ClientEnd,
) -> Result<Json<Settled>, Problem> {
    let ending = Ending {
        task_type: TaskType::new(task_type)?,
        id: TaskId::new(id)?,
        lock: read_lock(lock)?,
        end,
    };
    let task_type = ending.task_type.clone();
    let mut outcomes = allowed.space.pull.settle(vec![ending]).await;
    match outcomes.pop() {
        Some(Ok(SettleOutcome::Settled)) => Ok(Json(Settled { outcome: "settled" })),
        Some(Err(error)) => Err(error.into()),
        _ => Err(lost(&task_type, id)),
    }
}

pub(super) fn failed(
    error: String,
    after: Option<&str>,
    max_attempts: Option<u32>,
    is_dead: bool,
) -> Result<ClientEnd, Problem> {
    if is_dead {
        if after.is_some() || max_attempts.is_some() {
            let text = "a dead task is not tried again: leave retry_after and max_attempts out";
            return Err(Problem::bad_request(text));
        }
        return Ok(ClientEnd::Dead { error });
    }
    if max_attempts.is_some_and(|most| !(1..=MAX_ATTEMPTS).contains(&most)) {
        let text = format!("max_attempts: use 1 to {MAX_ATTEMPTS}");
        return Err(Problem::bad_request(text));
    }
    Ok(ClientEnd::Failed {
        error,
        after: after.map(read_wait_again).transpose()?,
        max_attempts,
    })
}

/// Parses the wait before a task is due again.
pub(super) fn read_wait_again(text: &str) -> Result<Duration, Problem> {
    let after = read_span(text)?;
    if after <= MAX_DELAY {
        return Ok(after);
    }
    Err(Problem::bad_request("a task waits at most 10 years"))
}

pub(super) fn extended(outcome: &ExtendOutcome) -> Option<Extended> {
    let (outcome, until) = match outcome {
        ExtendOutcome::Extended(until) => ("extended", until),
        ExtendOutcome::CancelRequested(until) => ("cancel_requested", until),
        _ => return None,
    };
    Some(Extended {
        outcome,
        lock_until: until.as_millis(),
    })
}

pub(super) fn read_lock(text: &str) -> Result<LockText, Problem> {
    text.parse()
        .map_err(|error: String| Problem::bad_request(error))
}

fn lost(task_type: &TaskType, id: &str) -> Problem {
    let text = format!(
        "this lock of {id} of {task_type} is lost: it expired and somebody else has the task, the \
         task has ended, or this attempt was settled in another way"
    );
    Problem::conflict("lock-lost", text)
}
