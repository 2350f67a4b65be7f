//! Finish, release and bury: ends of a held job.

use axum::Json;
use axum::extract::{Request, State};
use axum::http::request::Parts;
use delayq_core::time::MAX_DELAY;
use delayq_plugin::store::{AttemptEnd, Settlement};
use delayq_plugin::{Lock, TaskInfo, TaskState};
use delayq_service::access::Scope;
use delayq_service::pull::LockText;

use super::Grape;
use super::asked::Asked;
use super::course::Course;
use super::produce::delay;
use super::refusal::GrapeError;
use super::tubes::end;

/// The error text of a buried job.
const BURIED: &str = "buried by its consumer";

/// Marks a job as done. Answers false if no consumer holds it.
pub(super) async fn finish(
    State(grape): State<Grape>,
    request: Request,
) -> Result<Json<bool>, GrapeError> {
    let parts = request.into_parts().0;
    settle(&grape, &parts, |_, held| Ok(held.ends(AttemptEnd::Done))).await
}

/// Releases a job, to wait for a while. Answers false if no consumer holds it.
pub(super) async fn release(
    State(grape): State<Grape>,
    request: Request,
) -> Result<Json<bool>, GrapeError> {
    let parts = request.into_parts().0;
    let most = u64::from(grape.app.config.grape.max_executions);
    settle(&grape, &parts, |asked, held| {
        let dtr = asked.params.delay()?;
        let after = delay(dtr);
        if after > MAX_DELAY {
            return Err(GrapeError::bad_delay());
        }
        let course = Course::of(&held.task.headers, &held.task.history);
        if course.noe.saturating_add(1) >= most {
            let error = format!("released after {most} executions (grape.max_executions)");
            return Ok(held.fails(error));
        }
        let succeeded = Vec::new();
        let release = AttemptEnd::Release { after, succeeded };
        Ok(held.ends(release).with_note(course.note(dtr)))
    })
    .await
}

/// Marks a job as failed. Answers false if no consumer holds it.
pub(super) async fn bury(
    State(grape): State<Grape>,
    request: Request,
) -> Result<Json<bool>, GrapeError> {
    let parts = request.into_parts().0;
    settle(&grape, &parts, |_, held| Ok(held.fails(BURIED.to_owned()))).await
}

/// A job that a consumer holds.
struct HeldJob {
    lock: Lock,
    task: TaskInfo,
}

impl HeldJob {
    fn ends(&self, end: AttemptEnd) -> Settlement {
        Settlement::new(self.lock.clone(), end)
    }

    fn fails(&self, error: String) -> Settlement {
        let succeeded = self.task.history.succeeded.clone();
        self.ends(AttemptEnd::Dead { error, succeeded })
    }
}

/// Ends the attempt of the consumer that holds a job. The id alone suffices, as in the original.
/// With the lock from the header `Delayq-Locks` of `consume`, the job of a later consumer is safe.
async fn settle(
    grape: &Grape,
    parts: &Parts,
    how: impl FnOnce(&Asked, &HeldJob) -> Result<Settlement, GrapeError>,
) -> Result<Json<bool>, GrapeError> {
    let asked = Asked::of(grape, parts, Scope::Work).await?;
    let id = asked.params.id()?;
    let lock = asked.params.given("lock").map(str::parse::<LockText>);
    let lock = lock
        .transpose()
        .map_err(|text| GrapeError::Named(2_004, text))?;
    let space = &asked.client.space;
    let task = space.tasks.find(asked.tube.as_str(), id.as_str()).await?;
    let task = task.filter(|task| task.state == TaskState::Running);
    let fence = task.as_ref().and_then(|task| task.fence);
    let empty = || TaskInfo::new(id.clone(), TaskState::Done, delayq_plugin::Timestamp::MAX);
    let held = HeldJob {
        lock: Lock {
            id: id.clone(),
            fence: fence.unwrap_or(0),
        },
        task: task.unwrap_or_else(empty),
    };
    // The parameters are checked even if there is no such job.
    let settlement = how(&asked, &held)?;
    let Some(fence) = fence else {
        return Ok(Json(false));
    };
    if lock.as_ref().is_some_and(|lock| lock.fence != fence) {
        return Ok(Json(false));
    }
    let buckets = match lock {
        Some(lock) => vec![lock.bucket(&asked.tube)],
        None => space.tasks.store().buckets(&asked.tube).await?,
    };
    Ok(Json(end(space, &buckets, &settlement).await?))
}
