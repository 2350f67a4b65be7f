//! Lists of tasks, and dead tasks.

use delayq_core::operate::{Cursor, DeadFilter};
use delayq_core::store::MAX_BATCH;
use delayq_plugin::Result;
use delayq_proto::{pb, read_span_or_zero, read_state, required};

use super::call::{Call, Run};
use super::refusal::CallError;

impl Run for pb::ListRequest {
    async fn run(self, call: &Call) -> Result<Self::Answer, CallError> {
        let task_type = call.task_type(&self.task_type)?;
        let state = read_state(self.state)?;
        let cursor = self.cursor.map(Cursor::try_from).transpose()?;
        let limit = self.limit.map(usize::try_from).and_then(Result::ok);
        let limit = limit.unwrap_or(MAX_BATCH);
        let store = call.store();
        let page = store
            .list(&task_type, state, cursor.as_ref(), limit)
            .await?;
        Ok(page.into())
    }
}

impl Run for pb::RequeueDeadRequest {
    async fn run(self, call: &Call) -> Result<Self::Answer, CallError> {
        let task_type = call.task_type(&self.task_type)?;
        let filter: DeadFilter = required("filter", self.filter)?.try_into()?;
        let interval = read_span_or_zero("interval", self.interval)?;
        let operator = call.store_operator();
        let requeued = operator.requeue_dead(task_type.as_str(), &filter, interval);
        let ids = requeued.await?;
        Ok(pb::RequeueDeadResponse {
            ids: ids.iter().map(ToString::to_string).collect(),
        })
    }
}

impl Run for pb::DiscardDeadRequest {
    async fn run(self, call: &Call) -> Result<Self::Answer, CallError> {
        let task_type = call.task_type(&self.task_type)?;
        let filter: DeadFilter = required("filter", self.filter)?.try_into()?;
        let operator = call.store_operator();
        let ids = operator.discard_dead(task_type.as_str(), &filter).await?;
        Ok(pb::DiscardDeadResponse {
            ids: ids.iter().map(ToString::to_string).collect(),
        })
    }
}
