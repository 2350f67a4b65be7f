//! Batches.

use delayq_plugin::{BatchEnd, BatchState, Result};
use delayq_proto::{pb, required};
use delayq_service::operation::batches;

use super::call::{Call, Run};
use super::many;
use super::refusal::CallError;
use super::sent::job;

impl Run for pb::SendBatchRequest {
    async fn run(self, call: &Call) -> Result<Self::Answer, CallError> {
        for sent in self.tasks.iter().chain(&self.then) {
            call.task_type(&sent.task_type)?;
        }
        let members = self.tasks.into_iter().map(job);
        let new = batches::NewBatch {
            name: self.name,
            members: members.collect::<Result<_>>()?,
            then: job(required("then", self.then)?)?,
            waits_for_dead: self.wait_for_dead,
        };
        let receipt = batches::send(call, new).await?;
        let ids = receipt.members.iter().map(|one| one.id.to_string());
        Ok(pb::SendBatchResponse {
            ids: ids.collect(),
            then_id: receipt.completion_id.to_string(),
        })
    }
}

impl Run for pb::GetBatchRequest {
    async fn run(self, call: &Call) -> Result<Self::Answer, CallError> {
        let progress = batches::progress(call, &self.name).await?;
        let state = match progress.state {
            BatchState::Waiting => pb::BatchState::Waiting,
            BatchState::Cancelled => pb::BatchState::Cancelled,
            BatchState::Over => pb::BatchState::Over,
            BatchState::Dead => pb::BatchState::Dead,
            _ => pb::BatchState::Unspecified,
        };
        Ok(pb::GetBatchResponse {
            state: state.into(),
            counts: progress.counts.as_ref().map(counts),
            is_exact: progress.is_exact,
        })
    }
}

impl Run for pb::CancelBatchRequest {
    async fn run(self, call: &Call) -> Result<Self::Answer, CallError> {
        let report = batches::cancel(call, &self.name).await?;
        Ok(many::answer(&report))
    }
}

fn counts(end: &BatchEnd) -> pb::BatchCounts {
    pb::BatchCounts {
        total: end.total,
        done: end.done,
        dead: end.dead,
        cancelled: end.cancelled,
        expired: end.expired,
        forgotten: end.forgotten,
    }
}
