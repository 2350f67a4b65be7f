//! Settlement of several attempts at once, and extension of several locks.

use std::time::Duration;

use axum::Json;
use axum::extract::Path;
use delayq_plugin::store::{AttemptEnd, MAX_BATCH, SettleOutcome};
use delayq_plugin::{DelayQueueJob, TaskId, TaskType};
use delayq_service::access::Work;
use delayq_service::app::App;
use delayq_service::context::Allowed;
use delayq_service::operation::{FinishedAttempt, settle};
use delayq_service::problem::Problem;
use delayq_service::pull::{ClientEnd, Ending, LockText};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::extract::{JsonBody, JsonList};
use super::form::{TextOrNumber, text_or_number};
use super::line::Line;
use super::pull::read_lock_for;
use super::settle::{
    Held, extended, failed, follow_ups, json_reply, read_follow_ups, read_lock, read_wait_again,
    released,
};

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(settle_many))
        .routes(routes!(extend_many))
}

/// The end of one attempt among several.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct EndingForm {
    /// The id of the task.
    id: String,
    /// The lock from the claim's answer.
    lock: String,
    /// `done`, `fail`, `dead` or `release`.
    end: String,
    /// For `fail` and `dead`: the error, for people to read.
    #[serde(default)]
    error: String,
    /// For `fail` and `release`: the wait before the task is due again, in milliseconds or as
    /// `30s`.
    #[serde(default, deserialize_with = "text_or_number")]
    #[schema(value_type = Option<TextOrNumber>)]
    after: Option<String>,
    /// For `fail`: attempts after which the task is dead; default 5.
    max_attempts: Option<u32>,
    /// For `done`: the reply to callers that wait, any JSON value.
    reply: Option<serde_json::Value>,
    /// For `done`: the tasks that follow, up to 128, each with its `type`.
    #[serde(default)]
    then: Vec<Line>,
}

impl EndingForm {
    /// Refuses fields that belong to another end.
    fn check(&self) -> Result<(), Problem> {
        let parts: [(_, _, &[&str]); 5] = [
            ("reply", self.reply.is_some(), &["done"]),
            ("then", !self.then.is_empty(), &["done"]),
            ("error", !self.error.is_empty(), &["fail", "dead"]),
            ("after", self.after.is_some(), &["fail", "release"]),
            ("max_attempts", self.max_attempts.is_some(), &["fail"]),
        ];
        let mut parts = parts.into_iter();
        let stray = parts.find(|(_, is_given, ends)| *is_given && !ends.contains(&&*self.end));
        stray.map_or(Ok(()), |(name, _, ends)| {
            let text = format!("{name}: only with the end {}", ends.join(" or "));
            Err(Problem::bad_request(text))
        })
    }
}

/// The outcome of one item.
#[derive(Clone, Debug, Serialize, ToSchema)]
struct One {
    /// The id of the task.
    id: String,
    /// `settled`, `extended`, `cancel_requested`, `lock_lost` or `failed`.
    outcome: &'static str,
    /// The time when the lock expires.
    #[serde(skip_serializing_if = "Option::is_none")]
    lock_until: Option<i64>,
    /// The reason of a failure.
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<Problem>,
}

/// End several attempts of one type, each independently. Repeating it is harmless.
///
/// An attempt with `then` ends as that of `done-then`, which needs the scope `submit` as well.
#[utoipa::path(
    post, path = "/v1/{namespace}/types/{task_type}/settle", tag = "work",
    params(("namespace", description = "Namespace"), ("task_type", description = "Type")),
    request_body(content = Vec<EndingForm>),
    responses((status = 200, body = Vec<One>, description = "One outcome each, in order"), (status = "4XX", body = Problem), (status = "5XX", body = Problem)),
    security(("token" = ["work"]))
)]
async fn settle_many(
    allowed: Allowed<Work>,
    Path((_, task_type)): Path<(String, String)>,
    JsonList(forms): JsonList<EndingForm>,
) -> Result<Json<Vec<One>>, Problem> {
    let task_type = TaskType::new(task_type)?;
    let mut attempts = Vec::with_capacity(forms.len());
    for (ending, jobs) in read_endings(&task_type, forms)? {
        let then = follow_ups(&allowed, jobs).await?;
        attempts.push(FinishedAttempt { ending, then });
    }
    let ids = attempts.iter().map(|one| one.ending.lock.id.to_string());
    let ids: Vec<_> = ids.collect();
    let outcomes = settle(&allowed, attempts).await;
    let outcomes = ids.into_iter().zip(outcomes).map(|(id, outcome)| {
        let (outcome, problem) = match outcome {
            Ok(SettleOutcome::Settled) => ("settled", None),
            Ok(_) => ("lock_lost", None),
            Err(problem) => ("failed", Some(problem)),
        };
        One {
            id,
            outcome,
            lock_until: None,
            problem,
        }
    });
    Ok(Json(outcomes.collect()))
}

/// Parses the settlements of several attempts of one type, each with the jobs that follow.
pub(super) fn read_endings(
    task_type: &TaskType,
    forms: Vec<EndingForm>,
) -> Result<Vec<(Ending, Vec<DelayQueueJob>)>, Problem> {
    at_most(forms.len())?;
    let mut endings = Vec::with_capacity(forms.len());
    for form in forms {
        form.check()?;
        let after = form.after.as_deref();
        let end = match form.end.as_str() {
            "done" => ClientEnd::Plain(AttemptEnd::Done),
            "fail" => failed(form.error, after, form.max_attempts, false)?,
            "dead" => failed(form.error, None, None, true)?,
            "release" => released(after.map_or(Ok(Duration::ZERO), read_wait_again)?),
            other => {
                let text = format!("end={other:?}: use done, fail, dead or release");
                return Err(Problem::bad_request(text));
            }
        };
        let held = Held::new(task_type.as_str(), &form.id, &form.lock)?;
        let mut ending = held.ending(end);
        ending.reply = json_reply(form.reply.as_ref())?;
        endings.push((ending, read_follow_ups(form.then)?));
    }
    Ok(endings)
}

/// Several locks of one type.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct LongerForm {
    /// The lock time from now; default `30s`.
    #[serde(default, deserialize_with = "text_or_number")]
    #[schema(value_type = Option<TextOrNumber>)]
    lock_for: Option<String>,
    /// The locks.
    locks: Vec<HeldForm>,
}

/// A lock.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct HeldForm {
    /// The id of the task.
    id: String,
    /// The lock from the claim's answer.
    lock: String,
}

/// Extend several locks of one type. Repeating it is harmless.
#[utoipa::path(
    post, path = "/v1/{namespace}/types/{task_type}/extend", tag = "work",
    params(("namespace", description = "Namespace"), ("task_type", description = "Type")),
    request_body(content = LongerForm),
    responses((status = 200, body = Vec<One>, description = "One outcome each, in order"), (status = "4XX", body = Problem), (status = "5XX", body = Problem)),
    security(("token" = ["work"]))
)]
async fn extend_many(
    allowed: Allowed<Work>,
    Path((_, task_type)): Path<(String, String)>,
    JsonBody(form): JsonBody<LongerForm>,
) -> Result<Json<Vec<One>>, Problem> {
    let task_type = TaskType::new(task_type)?;
    let lock_for = read_lock_for(form.lock_for.as_deref())?;
    let locks = read_locks(&form)?;
    let outcomes = allowed
        .space
        .pull
        .extend(&task_type, locks, lock_for)
        .await?;
    let outcomes = form.locks.into_iter().zip(outcomes).map(|(held, outcome)| {
        let extended = extended(&outcome);
        One {
            id: held.id,
            outcome: extended.as_ref().map_or("lock_lost", |one| one.outcome),
            lock_until: extended.map(|one| one.lock_until),
            problem: None,
        }
    });
    Ok(Json(outcomes.collect()))
}

/// Parses several locks.
pub(super) fn read_locks(form: &LongerForm) -> Result<Vec<(TaskId, LockText)>, Problem> {
    at_most(form.locks.len())?;
    let held = form.locks.iter();
    held.map(|held| Ok((TaskId::new(&held.id)?, read_lock(&held.lock)?)))
        .collect()
}

fn at_most(count: usize) -> Result<(), Problem> {
    let most = 8 * MAX_BATCH;
    if count <= most {
        return Ok(());
    }
    let text = format!("{count} at once: send up to {most}");
    Err(Problem::too_large(text))
}
