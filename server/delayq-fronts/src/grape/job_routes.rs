//! Routes of jobs.

use axum::extract::{Request, State};
use axum::http::request::Parts;
use axum::routing::{delete, get, post, put};
use axum::{Json, Router};
use delayq_plugin::TaskState;
use delayq_service::access::Scope;

use super::Grape;
use super::asked::Asked;
use super::consume::consume;
use super::job::{GrapeJob, SEEN};
use super::produce::{kick, produce};
use super::refusal::GrapeError;
use super::retained;

/// The routes, below `/api/job`.
pub(super) fn routes() -> Router<Grape> {
    Router::new()
        .route("/produce", post(produce))
        .route("/consume", get(consume))
        .route("/delete", delete(cancel))
        .route("/finish", delete(retained::finish))
        .route("/release", put(retained::release))
        .route("/bury", put(retained::bury))
        .route("/failure", put(retained::bury))
        .route("/peek", get(peek))
        .route("/kick", put(kick))
        .route("/discard", delete(discard))
}

/// Deletes a waiting job.
async fn cancel(State(grape): State<Grape>, request: Request) -> Result<Json<bool>, GrapeError> {
    use delayq_plugin::CancelOutcome::{Cancelled, Running};
    let asked = Asked::of(&grape, &request.into_parts().0, Scope::Submit).await?;
    let (tasks, tube, id) = (
        &asked.client.space.tasks,
        asked.tube.as_str(),
        asked.params.id()?,
    );
    // A cancel would mark a job that a consumer holds; a delete must not touch such a job.
    let found = tasks.find(tube, id.as_str()).await?;
    if found.is_none_or(|task| task.state != TaskState::Scheduled) {
        return Ok(Json(false));
    }
    // A job that was claimed meanwhile is not handed out again.
    let outcome = tasks.cancel(tube, id.as_str()).await?;
    Ok(Json(matches!(outcome, Cancelled | Running)))
}

/// The failed jobs, oldest first.
async fn peek(State(grape): State<Grape>, parts: Parts) -> Result<Json<Vec<GrapeJob>>, GrapeError> {
    let asked = Asked::of(&grape, &parts, Scope::Read).await?;
    let store = asked.client.space.tasks.store();
    let most = asked.params.most(SEEN);
    let (mut jobs, mut cursor) = (Vec::new(), None);
    while jobs.len() < most {
        let limit = (most - jobs.len()).min(delayq_plugin::store::MAX_BATCH);
        let state = TaskState::Dead;
        let page = store
            .list(&asked.tube, state, cursor.as_ref(), limit)
            .await?;
        jobs.extend(page.tasks.into_iter().map(GrapeJob::failed));
        cursor = page.next;
        if cursor.is_none() {
            break;
        }
    }
    Ok(Json(jobs))
}

/// Deletes a failed job.
async fn discard(State(grape): State<Grape>, request: Request) -> Result<Json<bool>, GrapeError> {
    let asked = Asked::of(&grape, &request.into_parts().0, Scope::Operate).await?;
    let id = asked.params.id()?;
    let filter = delayq_plugin::DeadFilter::Ids(vec![id.clone()]);
    let store = asked.client.space.tasks.store();
    let discarded = !store.discard_dead(&asked.tube, &filter).await?.is_empty();
    if discarded {
        let operator = asked.client.operator();
        operator
            .note("discard", asked.tube.as_str(), id.as_str())
            .await;
    }
    Ok(Json(discarded))
}
