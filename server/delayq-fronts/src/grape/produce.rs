//! Produce and kick: a job starts to wait.

use std::time::Duration;

use axum::Json;
use axum::extract::{Request, State};
use delayq_plugin::{DelayQueueJob, Error, SubmitOutcome, TaskId, TaskInfo, TaskState};
use delayq_service::access::Scope;
use delayq_service::context::Context;
use delayq_service::operation::{Submission, submit_one};

use super::Grape;
use super::asked::Asked;
use super::course::{Course, DELAY, EXECUTIONS, SHORTEST, TIME};
use super::refusal::GrapeError;
use crate::body::read_body;

/// The original's answer to a job without a body.
const NO_BODY: &str = "java.lang.NullPointerException: Cannot invoke \
     \"io.vertx.core.buffer.Buffer.getBytes()\" because the return value of \
     \"io.vertx.ext.web.RoutingContext.getBody()\" is null";

/// Produces a job. Answers false if its id is already waiting, running or failed.
pub(super) async fn produce(
    State(grape): State<Grape>,
    request: Request,
) -> Result<Json<bool>, GrapeError> {
    let (parts, body) = request.into_parts();
    let asked = Asked::of(&grape, &parts, Scope::Submit).await?;
    let id = asked.params.id()?;
    let (dtr, ttr) = (asked.params.delay()?, asked.params.time()?);
    let message = read_body(&grape.app, body).await?;
    if message.is_empty() {
        return Err(GrapeError::Failed(NO_BODY.to_owned()));
    }
    let job = DelayQueueJob::raw(asked.tube.as_str(), message)
        .id(id.as_str())
        .after(delay(dtr))
        .header(DELAY, dtr.to_string())
        .header(TIME, ttr.max(SHORTEST).to_string());
    Ok(Json(send(&asked.client, job).await?))
}

/// Submits a job; returns true if it waits now. An ended job does not block an equal new one,
/// because an id may be reused, as in the original.
async fn send(client: &Context, job: DelayQueueJob) -> Result<bool, GrapeError> {
    match attempt(client, job.clone()).await? {
        SubmitOutcome::AlreadyExists { state } if state.is_ended() => {
            let job = job.header("grape-run", ulid::Ulid::generate().to_string());
            let outcome = attempt(client, job).await?;
            Ok(matches!(outcome, SubmitOutcome::Accepted { .. }))
        }
        outcome => Ok(matches!(outcome, SubmitOutcome::Accepted { .. })),
    }
}

async fn attempt(client: &Context, job: DelayQueueJob) -> Result<SubmitOutcome, GrapeError> {
    let sent = async {
        let task = Submission::of_job(client, job).await?;
        submit_one(client, task).await
    };
    match sent.await {
        Ok(receipt) => Ok(receipt.outcome),
        Err(problem) => match problem.cause() {
            Some(Error::Conflict { state, .. }) => Ok(SubmitOutcome::Conflict { state: *state }),
            Some(Error::InvalidInput { what: "delay", .. }) => Err(GrapeError::bad_delay()),
            _ => Err(problem.into()),
        },
    }
}

/// Makes a failed job wait again. Answers false if it has not failed.
pub(super) async fn kick(
    State(grape): State<Grape>,
    request: Request,
) -> Result<Json<bool>, GrapeError> {
    let asked = Asked::of(&grape, &request.into_parts().0, Scope::Operate).await?;
    let (id, dtr) = (asked.params.id()?, asked.params.delay()?);
    // With all headers of the job, which the new one keeps.
    let tasks = &asked.client.space.within;
    let task = tasks.find(asked.tube.as_str(), id.as_str()).await?;
    let Some(task) = task.filter(|task| task.state == TaskState::Dead) else {
        return Ok(Json(false));
    };
    // Replaces the job in one step, so that it is never due too early.
    let job = again(asked.tube.as_str(), &id, task, dtr);
    let kicked = match tasks.send(job).await {
        Ok(receipt) => matches!(receipt.outcome, SubmitOutcome::Accepted { .. }),
        Err(Error::Conflict { .. }) => false,
        Err(Error::InvalidInput { what: "delay", .. }) => return Err(GrapeError::bad_delay()),
        Err(error) => return Err(error.into()),
    };
    if kicked {
        let operator = asked.client.operator();
        operator
            .note("requeue", asked.tube.as_str(), id.as_str())
            .await;
    }
    Ok(Json(kicked))
}

/// The new job for a failed task, with its executions so far.
fn again(tube: &str, id: &TaskId, task: TaskInfo, dtr: i64) -> DelayQueueJob {
    let course = Course::of(&task.headers, &task.history);
    let mut job = DelayQueueJob::raw(tube, task.message.unwrap_or_default())
        .id(id.as_str())
        .replace()
        .after(delay(dtr));
    for (name, value) in task.headers {
        job = job.header(name, value);
    }
    if let Some(expires_at) = task.expires_at {
        job = job.expires_at(expires_at);
    }
    job.header(DELAY, dtr.to_string())
        .header(TIME, course.ttr.to_string())
        .header(EXECUTIONS, course.noe.to_string())
}

/// Reads a Grape delay; a negative delay counts as 0.
pub(super) fn delay(dtr: i64) -> Duration {
    Duration::from_millis(u64::try_from(dtr).unwrap_or(0))
}
