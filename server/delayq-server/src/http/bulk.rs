//! Bulk create: lines of JSON in, one outcome for each line out, both streamed.

use std::sync::Arc;
use std::time::Duration;

use axum::Extension;
use axum::body::{Body, Bytes};
use axum::extract::{Path, State};
use axum::response::Response;
use delayq_service::access::Submit;
use delayq_service::app::App;
use delayq_service::body::{BodyShare, problem_of};
use delayq_service::context::Allowed;
use delayq_service::operation::{Batch, Submission, submit};
use delayq_service::problem::Problem;
use futures_util::StreamExt;
use serde::Serialize;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::form::Accepted;
use super::line::Line;
use super::lines::{Gone, Lines, answer};

/// The number of lines in one call to the store.
const BATCH: usize = 1_000;
/// The room for the parts of a line other than its message, in bytes.
const LINE_FRAME: usize = 16 * 1_024;

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(create_many))
}

/// The outcome of a line.
#[derive(Debug, Serialize, ToSchema)]
struct LineOutcome {
    /// The number of the line, from 1.
    line: u64,
    #[serde(flatten)]
    accepted: Option<Accepted>,
    /// The reason why it was not accepted.
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<Problem>,
}

impl LineOutcome {
    fn of(line: u64) -> Self {
        Self {
            line,
            accepted: None,
            problem: None,
        }
    }
}

/// Create many tasks of a type, one for each line of JSON. The answer has one line for each, in
/// order.
///
/// Request and answer are streams of any length: read the answer while you send, or send at most
/// 10,000 lines at once. A line that is not accepted does not stop the others. Repeating it is
/// harmless if each line has an id.
#[utoipa::path(
    post, path = "/v1/{namespace}/types/{task_type}/bulk", tag = "tasks",
    params(("namespace", description = "Namespace"), ("task_type", description = "Type")),
    request_body(content = Line, description = "Lines of JSON", content_type = "application/x-ndjson"),
    responses((status = 200, body = LineOutcome, content_type = "application/x-ndjson", description = "A line for each line"), (status = "4XX", body = Problem), (status = "5XX", body = Problem)),
    security(("token" = ["submit"]))
)]
async fn create_many(
    allowed: Allowed<Submit>,
    State(app): State<App>,
    Path((_, task_type)): Path<(String, String)>,
    share: Option<Extension<Arc<BodyShare>>>,
    body: Body,
) -> Response {
    let longest = app.config.max_message_bytes.saturating_mul(2) + LINE_FRAME;
    answer(move |lines| async move {
        let mut reader = BulkReader {
            allowed,
            task_type,
            longest,
            patience: app.config.connections.body_timeout(),
            share: share.map(|Extension(share)| share),
            rest: Vec::new(),
            number: 0,
            lines,
        };
        // The client is gone, so nobody needs the answer.
        reader.read(body).await.ok();
    })
}

/// The reader of one request.
struct BulkReader {
    allowed: Allowed<Submit>,
    task_type: String,
    longest: usize,
    /// The time limit for the next part of the body.
    patience: Duration,
    /// What the request holds of the room for bodies.
    share: Option<Arc<BodyShare>>,
    /// An incomplete line.
    rest: Vec<u8>,
    number: u64,
    lines: Lines,
}

impl BulkReader {
    async fn read(&mut self, body: Body) -> Result<(), Gone> {
        let mut parts = body.into_data_stream();
        loop {
            let Ok(part) = tokio::time::timeout(self.patience, parts.next()).await else {
                let text = "nothing more came in time";
                return self.stop(Problem::bad_request(text)).await;
            };
            let Some(part) = part else {
                break;
            };
            let part = match part {
                Ok(part) => part,
                Err(error) => {
                    let cut_off = || Problem::bad_request("the request was cut off");
                    return self.stop(problem_of(&error).unwrap_or_else(cut_off)).await;
                }
            };
            self.take(&part).await?;
            if let Some(share) = &self.share {
                // Holds less than before, so there is room for it.
                share.hold(self.rest.len()).ok();
            }
            if self.rest.len() > self.longest {
                let text = format!("longer than {} bytes", self.longest);
                return self.stop(Problem::bad_request(text)).await;
            }
        }
        let last = std::mem::take(&mut self.rest);
        self.send(&[&last]).await
    }

    /// Handles the complete lines in a part of the body.
    async fn take(&mut self, part: &Bytes) -> Result<(), Gone> {
        let Some(end) = part.iter().rposition(|byte| *byte == b'\n') else {
            self.rest.extend_from_slice(part);
            return Ok(());
        };
        let (complete, rest) = part.split_at(end);
        let mut whole = std::mem::take(&mut self.rest);
        whole.extend_from_slice(complete);
        self.rest = rest.get(1..).unwrap_or_default().to_vec();
        let lines: Vec<_> = whole.split(|byte| *byte == b'\n').collect();
        for batch in lines.chunks(BATCH) {
            self.send(batch).await?;
        }
        Ok(())
    }

    /// Submits a batch and answers it.
    async fn send(&mut self, batch: &[&[u8]]) -> Result<(), Gone> {
        let (mut outcomes, mut tasks) = (Vec::with_capacity(batch.len()), Vec::new());
        for line in batch {
            self.number += 1;
            if line.trim_ascii().is_empty() {
                continue;
            }
            let mut outcome = LineOutcome::of(self.number);
            match self.submission(line).await {
                Ok(task) => tasks.push(task),
                Err(problem) => outcome.problem = Some(problem),
            }
            outcomes.push(outcome);
        }
        if outcomes.is_empty() {
            return Ok(());
        }
        let count = tasks.len();
        // Lines are charged in addition to the request.
        let submitted = submit(&self.allowed, Batch::new(tasks).paid(0)).await;
        let submitted = submitted.unwrap_or_else(|problem| vec![Err(problem); count]);
        let good = outcomes.iter_mut().filter(|one| one.problem.is_none());
        for (outcome, submitted) in good.zip(submitted) {
            match submitted {
                Ok(receipt) => outcome.accepted = Some(receipt.into()),
                Err(problem) => outcome.problem = Some(problem),
            }
        }
        self.lines.send(&outcomes).await
    }

    async fn submission(&self, line: &[u8]) -> Result<Submission, Problem> {
        if line.len() > self.longest {
            let text = format!("longer than {} bytes", self.longest);
            return Err(Problem::too_large(text));
        }
        let job = Line::read(line)?.job_of(&self.task_type)?;
        Submission::of_job(&self.allowed, job).await
    }

    /// Reports that the rest is not read.
    async fn stop(&self, why: Problem) -> Result<(), Gone> {
        let text = format!("{why}: this line and what follows it was not read");
        let mut outcome = LineOutcome::of(self.number + 1);
        outcome.problem = Some(why.saying(text));
        self.lines.send(&[outcome]).await
    }
}
