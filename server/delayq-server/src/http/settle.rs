//! Settlement of an attempt, and extension of its lock.

use std::time::Duration;

use axum::Json;
use axum::extract::Path;
use axum::http::HeaderMap;
use delayq_core::time::MAX_DELAY;
use delayq_plugin::store::{AttemptEnd, ExtendOutcome, SettleOutcome};
use delayq_plugin::{DelayQueueJob, Reply, TaskId, TaskType};
use delayq_service::access::Work;
use delayq_service::app::App;
use delayq_service::context::{Allowed, Context};
use delayq_service::operation::{FinishedAttempt, FollowUp, settle};
use delayq_service::problem::Problem;
use delayq_service::pull::{ClientEnd, Ending, Failure, LockText};
use futures_util::future::try_join_all;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::extract::{Body, JsonBody, Query};
use super::form::read_span;
use super::line::Line;
use super::pull::read_lock_for;
use super::reply::read_reply;

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(done))
        .routes(routes!(done_then))
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
    /// The wait before the next attempt: milliseconds, or a span such as `30s`. Default: that of
    /// the type's policy, or else 1 s, 2 s, 4 s and so on, each up to 10 % shorter or longer.
    retry_after: Option<String>,
    /// Attempts after which the task is dead, the first included. Default: that of the type's
    /// policy, or else 5.
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
    let reply = read_reply(&headers, body)?;
    let held = Held::new(&task_type, &id, &held.lock)?;
    let mut ending = held.ending(ClientEnd::Plain(AttemptEnd::Done));
    ending.reply = reply;
    held.settle(&allowed, ending.into()).await
}

/// What a done attempt leaves behind.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct DoneForm {
    /// The reply to callers that wait for the task, any JSON value.
    reply: Option<serde_json::Value>,
    /// The tasks that follow, up to 128, each with its `type`.
    #[schema(value_type = Vec<Line>)]
    then: Vec<Line>,
}

/// The attempt succeeded, and further tasks follow. Repeating it is harmless.
///
/// The follow-ups are accepted before the task is done. If one is refused, none is accepted and the
/// task is not done. A task that runs again after a crash in between sends them once: one without
/// an id gets an id that is made of the task, and a task with an id that exists is kept. It needs
/// the scope `submit` as well, for the types of the follow-ups.
#[utoipa::path(
    post, path = "/v1/{namespace}/types/{task_type}/tasks/{id}/done-then", tag = "work",
    params(("namespace", description = "Namespace"), ("task_type", description = "Type"), ("id", description = "Id"), LockQuery),
    request_body(content = DoneForm),
    responses((status = 200, body = Settled), (status = 409, body = Problem, description = "The lock is lost"), (status = "4XX", body = Problem), (status = "5XX", body = Problem)),
    security(("token" = ["work"]))
)]
async fn done_then(
    allowed: Allowed<Work>,
    Path((_, task_type, id)): Path<(String, String, String)>,
    Query(held): Query<LockQuery>,
    JsonBody(form): JsonBody<DoneForm>,
) -> Result<Json<Settled>, Problem> {
    let held = Held::new(&task_type, &id, &held.lock)?;
    let mut ending = held.ending(ClientEnd::Plain(AttemptEnd::Done));
    ending.reply = json_reply(form.reply.as_ref())?;
    let then = follow_ups(&allowed, read_follow_ups(form.then)?).await?;
    held.settle(&allowed, FinishedAttempt { ending, then })
        .await
}

/// The reply that is this JSON value.
pub(super) fn json_reply(value: Option<&serde_json::Value>) -> Result<Option<Reply>, Problem> {
    let reply = value.map(Reply::json).transpose()?;
    reply.as_ref().map_or(Ok(()), Reply::check)?;
    Ok(reply)
}

/// Parses the tasks that follow an attempt.
pub(super) fn read_follow_ups(lines: Vec<Line>) -> Result<Vec<DelayQueueJob>, Problem> {
    let jobs = lines.into_iter().enumerate().map(|(index, line)| {
        let job = line.typed_job();
        job.map_err(|problem| {
            let text = format!("then[{index}]: {problem}");
            problem.saying(text)
        })
    });
    jobs.collect()
}

/// The follow-ups of these jobs, if the caller may send them.
pub(super) async fn follow_ups(
    context: &Context,
    jobs: Vec<DelayQueueJob>,
) -> Result<Vec<FollowUp>, Problem> {
    try_join_all(jobs.into_iter().map(|job| FollowUp::of_job(context, job))).await
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
    let held = Held::new(&task_type, &id, &failure.lock)?;
    let ending = held.ending(end);
    held.settle(&allowed, ending.into()).await
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
    let held = Held::new(&task_type, &id, &back.lock)?;
    let ending = held.ending(released(after));
    held.settle(&allowed, ending.into()).await
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

/// An attempt that a client holds.
pub(super) struct Held {
    task_type: TaskType,
    id: TaskId,
    lock: LockText,
}

impl Held {
    pub(super) fn new(task_type: &str, id: &str, lock: &str) -> Result<Self, Problem> {
        Ok(Self {
            task_type: TaskType::new(task_type)?,
            id: TaskId::new(id)?,
            lock: read_lock(lock)?,
        })
    }

    /// The end of the attempt, without a reply.
    pub(super) fn ending(&self, end: ClientEnd) -> Ending {
        let bucket = self.lock.bucket(&self.task_type);
        let mut ending = Ending::new(bucket, self.lock.of(self.id.clone()), end);
        ending.tried = Some(self.lock.tried);
        ending
    }

    async fn settle(
        &self,
        context: &Context,
        attempt: FinishedAttempt,
    ) -> Result<Json<Settled>, Problem> {
        match settle(context, vec![attempt]).await.pop() {
            Some(Ok(SettleOutcome::Settled)) => Ok(Json(Settled { outcome: "settled" })),
            Some(Err(problem)) => Err(problem),
            _ => Err(lost(&self.task_type, self.id.as_str())),
        }
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
        let succeeded = Vec::new();
        return Ok(ClientEnd::Plain(AttemptEnd::Dead { error, succeeded }));
    }
    let failure = Failure {
        error,
        after: after.map(read_wait_again).transpose()?,
        max_attempts,
    };
    failure.check()?;
    Ok(ClientEnd::Failed(failure))
}

/// The end of an attempt that is given back.
pub(super) fn released(after: Duration) -> ClientEnd {
    let succeeded = Vec::new();
    ClientEnd::Plain(AttemptEnd::Release { after, succeeded })
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
