//! A new task, as sent by applications of the Spring delay queue.

use axum::body::Body;
use axum::http::StatusCode;
use delayq_endpoint::{SpringJob, spelled_id, spelled_type};
use delayq_plugin::{DelayQueueJob, Timestamp};
use delayq_service::access::Submit;
use delayq_service::body::read;
use delayq_service::operation::{Submission, submit_one};
use delayq_service::push::{SPRING_ID, SPRING_TIME, SPRING_TYPE};

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
    let (app, spelled) = (app.to_lowercase(), spelled_type(&task));
    let task_type = format!("{}-{spelled}", spelled_type(&app));
    let mut new = DelayQueueJob::raw(task_type, message).id(spelled_id(&id));
    new = new.header(SPRING_TIME, job.delay_time.to_string());
    // Instances are told the names as the caller wrote them.
    if spelled != task {
        new = new.header(SPRING_TYPE, task.clone());
    }
    if spelled_id(&id) != id {
        new = new.header(SPRING_ID, id.clone());
    }
    // 0, which a caller leaves out, and less mean now. A small time may be one in seconds: it is
    // refused as everywhere.
    if job.delay_time > 0 {
        new = new.at(Timestamp::from_millis(job.delay_time));
    }
    Ok(new.replace().again_if_running())
}
