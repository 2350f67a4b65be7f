//! What is going on, and why: for people.

use delayq_proto::pb;
use serde::Serialize;

use super::call::{Call, Run};
use super::moment;
use super::refusal::Refusal;
use crate::problem::Problem;

impl Run for pb::TimelineRequest {
    async fn run(self, call: &Call) -> Result<Self::Answer, Refusal> {
        let (task_type, id) = call.task(&self.task_type, &self.id)?;
        let (task_type, id) = (task_type.as_str(), id.as_str());
        let moments = delayq_ops::timeline(&call.space.tasks, task_type, id).await?;
        if moments.is_empty() {
            return Err(Problem::no_task(task_type, id).into());
        }
        Ok(pb::TimelineResponse {
            moments: moments.into_iter().map(moment::moment).collect(),
        })
    }
}

impl Run for pb::ExplainRequest {
    async fn run(self, call: &Call) -> Result<Self::Answer, Refusal> {
        let (task_type, id) = call.task(&self.task_type, &self.id)?;
        let explained = delayq_ops::explain(&call.space.tasks, task_type.as_str(), id.as_str());
        let explanation = moment::explanation(&explained.await?)?;
        Ok(pb::ExplainResponse {
            explanation: Some(explanation),
        })
    }
}

impl Run for pb::OverviewRequest {
    async fn run(self, call: &Call) -> Result<Self::Answer, Refusal> {
        call.caller.require_all_types()?;
        let overview = delayq_ops::overview_of_all(&call.space.tasks).await?;
        let json = written(&overview)?;
        Ok(pb::OverviewResponse { json })
    }
}

/// The JSON form of an answer.
pub(super) fn written<T: Serialize>(answer: &T) -> Result<String, Problem> {
    serde_json::to_string(answer).map_err(|error| {
        tracing::error!(%error, "an answer has no JSON form");
        Problem::unavailable("the answer could not be written")
    })
}
