//! A new task, as applications of the Spring delay queue send it.

use axum::body::Bytes;
use axum::http::StatusCode;
use delayq_plugin::callee::SpringJob;
use delayq_plugin::{DelayQueueJob, TaskId, Timestamp};

use super::answer::Refusal;
use super::caller::Asking;
use crate::access::Submit;
use crate::problem::Problem;
use crate::push::SPRING_TIME;

/// Takes a task. One with the same type and id takes its place; one that runs is run again.
pub(super) async fn add(asking: Asking<Submit>, body: Bytes) -> Result<StatusCode, Refusal> {
    let job: SpringJob =
        serde_json::from_slice(&body).map_err(|error| asking.bad_request(error.to_string()))?;
    let missing = |name: &str| asking.bad_request(format!("{name} is missing"));
    let id = job.task_id.ok_or_else(|| missing("taskId"))?;
    let task = job.task_type.ok_or_else(|| missing("taskType"))?;
    // Without it no instance could be found.
    let app = job.app_name.ok_or_else(|| missing("appName"))?;
    let message = job.params.unwrap_or_default();
    let accepted = async {
        let task_type = format!("{}-{task}", app.to_lowercase());
        let task_type = asking.require_type(&task_type)?;
        let id = TaskId::new(id)?;
        asking.fits(message.len())?;
        let space = &asking.space;
        if let Err(full) = asking.make_room().await {
            let known = space.unless_known(full, task_type.as_str(), id.as_str());
            known.await?;
        }
        let due_at = Timestamp::from_millis(job.delay_time);
        let new = DelayQueueJob::raw(task_type.as_str(), message).id(id.as_str());
        let new = new.header(SPRING_TIME, job.delay_time.to_string());
        let new = new.at(due_at).replace().again_if_running();
        space.tasks.send(new).await?;
        Ok(())
    };
    accepted
        .await
        .map_err(|problem: Problem| asking.refused(problem))?;
    Ok(StatusCode::OK)
}
