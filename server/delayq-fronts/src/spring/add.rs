//! A new task, as sent by applications of the Spring delay queue.

use axum::body::Body;
use axum::http::StatusCode;
use delayq_endpoint::SpringJob;
use delayq_plugin::{DelayQueueJob, Timestamp};
use delayq_service::access::Submit;
use delayq_service::body::read;
use delayq_service::operation::{Submission, submit_one};
use delayq_service::push::SPRING_TIME;

use super::answer::SpringError;
use super::caller::Asking;
use super::max_body_bytes;

/// Submits a task. It replaces a task with the same type and id; a running one is run again.
pub(super) async fn add(asking: Asking<Submit>, body: Body) -> Result<StatusCode, SpringError> {
    let patience = asking.app.config.connections.body_timeout();
    let body = read(body, max_body_bytes(&asking.app), patience).await;
    let body = body.map_err(|problem| asking.refused(problem))?;
    let job = read_job(&body).map_err(|error| asking.bad_request(error))?;
    let accepted = async {
        let task = Submission::of_job(&asking, job).await?;
        submit_one(&asking, task).await
    };
    let accepted = accepted.await;
    accepted.map_err(|problem| asking.refused(problem))?;
    Ok(StatusCode::OK)
}

/// Parses the task in a body; its names are not checked yet.
pub(super) fn read_job(body: &[u8]) -> Result<DelayQueueJob, String> {
    let job: SpringJob = serde_json::from_slice(body).map_err(|error| error.to_string())?;
    let missing = |name: &str| format!("{name} is missing");
    let id = job.task_id.ok_or_else(|| missing("taskId"))?;
    let task = job.task_type.ok_or_else(|| missing("taskType"))?;
    // Without the application's name, no instance can be found.
    let app = job.app_name.ok_or_else(|| missing("appName"))?;
    let message = job.params.unwrap_or_default();
    let due_at = Timestamp::from_millis(job.delay_time);
    let task_type = format!("{}-{task}", app.to_lowercase());
    let new = DelayQueueJob::raw(task_type, message).id(id);
    let new = new.header(SPRING_TIME, job.delay_time.to_string());
    Ok(new.at(due_at).replace().again_if_running())
}
