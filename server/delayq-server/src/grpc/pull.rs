//! Claims with a long poll.

use delayq_plugin::TaskType;
use delayq_proto::{pb, read_span, read_span_or_zero, required_type};
use delayq_service::problem::Problem;
use delayq_service::pull::{Asked, Handover};

use super::call::{Call, Run};
use super::refusal::CallError;

impl Run for pb::PullRequest {
    async fn run(self, call: &Call) -> Result<Handover, CallError> {
        let is_fair = match pb::PullOrder::try_from(self.order) {
            Ok(order) => order == pb::PullOrder::Fair,
            Err(_) => return Err(Problem::bad_request("order: use LISTED or FAIR").into()),
        };
        if self.task_types.is_empty() {
            required_type("")?;
        }
        let types = self.task_types.iter().map(|one| call.task_type(one));
        let lock_for = self.lock_for.map(|span| read_span("lock_for", span));
        let limit = self.limit.map(usize::try_from).transpose();
        let asked = Asked {
            types: types.collect::<Result<Vec<TaskType>, CallError>>()?,
            limit: limit.unwrap_or(Some(usize::MAX)),
            wait: read_span_or_zero("wait", self.wait)?,
            lock_for: lock_for.transpose()?,
            is_fair,
        };
        let handover = asked.claim(&call.space.pull).await?;
        // The token may have been revoked meanwhile. Dropping the handover releases the tasks.
        call.caller.is_still(&call.app.tokens)?;
        Ok(handover)
    }
}
