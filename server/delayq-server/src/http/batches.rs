//! Batches: many tasks, and one that is sent once all of them have ended.

use axum::Json;
use axum::extract::Path;
use axum::http::StatusCode;
use delayq_plugin::{BatchProgress, BatchReceipt, BulkReport, DelayQueueJob};
use delayq_service::access::{Read, Submit};
use delayq_service::app::App;
use delayq_service::context::Allowed;
use delayq_service::operation::batches;
use delayq_service::problem::Problem;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::answer::{BatchProgressForm, ChangeReportForm};
use super::extract::LargeJsonBody;
use super::line::Line;

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(send_batch, batch, cancel_batch))
}

/// A batch.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct BatchForm {
    /// The tasks, each with its `type`. One without an id gets the name of the batch and its index,
    /// such as `import-7/0`. None has a `throttle`.
    tasks: Vec<Line>,
    /// The task that follows, with its `type` and without an id: it gets one that is made of the
    /// batch. A delay counts from the end of the batch.
    then: Line,
    /// Waits also while a task is dead.
    #[serde(default)]
    wait_for_dead: bool,
}

impl BatchForm {
    /// The tasks, and the one that follows.
    pub(super) fn jobs(self) -> Result<(Vec<DelayQueueJob>, DelayQueueJob), Problem> {
        let of = |place: String, line: Line| {
            let job = line.typed_job();
            job.map_err(|problem| {
                let text = format!("{place}: {problem}");
                problem.saying(text)
            })
        };
        let tasks = self.tasks.into_iter().enumerate();
        let tasks = tasks.map(|(index, line)| of(format!("tasks[{index}]"), line));
        let tasks = tasks.collect::<Result<_, Problem>>()?;
        Ok((tasks, of("then".to_owned(), self.then)?))
    }
}

/// An accepted batch.
#[derive(Clone, Debug, Serialize, ToSchema)]
struct BatchAccepted {
    /// The name of the batch.
    name: String,
    /// The ids of the tasks, in order.
    ids: Vec<String>,
    /// The type of the task that follows.
    then_type: String,
    /// Its id.
    then_id: String,
}

impl From<BatchReceipt> for BatchAccepted {
    fn from(receipt: BatchReceipt) -> Self {
        let ids = receipt.members.iter().map(|one| one.id.to_string());
        Self {
            name: receipt.name.to_string(),
            ids: ids.collect(),
            then_type: receipt.completion_type.to_string(),
            then_id: receipt.completion_id.to_string(),
        }
    }
}

/// Create many tasks of any types, and one more once all of them have ended.
///
/// The task that follows is created when each task is done, cancelled, expired or dead, within 1 to
/// 10 s. Its header `delayq-batch` has the counts as JSON. The tasks are ordinary tasks: they can
/// be found, moved and cancelled. Up to 100,000 tasks, in a body of 4 MiB beside the largest
/// message. Repeat the whole request after a lost answer: nothing is created twice.
#[utoipa::path(
    put, path = "/v1/{namespace}/batches/{id}", tag = "batches",
    params(("namespace", description = "Namespace"), ("id", description = "Name, 1 to 64 visible ASCII characters")),
    request_body(content = BatchForm),
    responses((status = 201, body = BatchAccepted), (status = 409, body = Problem, description = "Another batch of this name waits"), (status = "4XX", body = Problem), (status = "5XX", body = Problem)),
    security(("token" = ["submit"]))
)]
async fn send_batch(
    allowed: Allowed<Submit>,
    Path((_, name)): Path<(String, String)>,
    LargeJsonBody(form): LargeJsonBody<BatchForm>,
) -> Result<(StatusCode, Json<BatchAccepted>), Problem> {
    let waits_for_dead = form.wait_for_dead;
    let (members, then) = form.jobs()?;
    let new = batches::NewBatch {
        name,
        members,
        then,
        waits_for_dead,
    };
    let receipt = batches::send(&allowed, new).await?;
    Ok((StatusCode::CREATED, Json(receipt.into())))
}

/// How far a batch is: its `state` (`waiting`, `cancelled`, `over` or `dead`) and its `counts`.
///
/// The counts are `null` once it is over: the task that follows has them. `is_exact` is `false` if
/// not every task was looked at. A batch is known while it waits, and for the retention after that.
#[utoipa::path(
    get, path = "/v1/{namespace}/batches/{id}", tag = "batches",
    params(("namespace", description = "Namespace"), ("id", description = "Name")),
    responses((status = 200, body = BatchProgressForm), (status = "4XX", body = Problem), (status = "5XX", body = Problem)),
    security(("token" = ["read"]))
)]
async fn batch(
    allowed: Allowed<Read>,
    Path((_, name)): Path<(String, String)>,
) -> Result<Json<BatchProgress>, Problem> {
    Ok(Json(batches::progress(&allowed, &name).await?))
}

/// Cancel the tasks of a batch that have not ended; the task that follows is not created. Running
/// ones are asked to stop. Repeating it is harmless.
#[utoipa::path(
    delete, path = "/v1/{namespace}/batches/{id}", tag = "batches",
    params(("namespace", description = "Namespace"), ("id", description = "Name")),
    responses((status = 200, body = ChangeReportForm, description = "How many"), (status = "4XX", body = Problem), (status = "5XX", body = Problem)),
    security(("token" = ["submit"]))
)]
async fn cancel_batch(
    allowed: Allowed<Submit>,
    Path((_, name)): Path<(String, String)>,
) -> Result<Json<BulkReport>, Problem> {
    Ok(Json(batches::cancel(&allowed, &name).await?))
}
