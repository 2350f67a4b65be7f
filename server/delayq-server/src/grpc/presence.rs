//! Running instances.

use delayq_core::presence::{InstanceId, InstanceInfo};
use delayq_plugin::{Result, TaskType};
use delayq_proto::{pb, read_span, required};

use super::call::{Call, Run};
use super::refusal::CallError;

impl Run for pb::AnnounceRequest {
    async fn run(self, call: &Call) -> Result<Self::Answer, CallError> {
        let instance: InstanceInfo = required("instance", self.instance)?.try_into()?;
        let holds = read_span("holds", required("holds", self.holds)?)?;
        let instance = narrowed(call, instance);
        call.store().announce(&instance, holds).await?;
        Ok(pb::AnnounceResponse {})
    }
}

impl Run for pb::WithdrawRequest {
    async fn run(self, call: &Call) -> Result<Self::Answer, CallError> {
        let id = InstanceId::stored(self.id);
        let instances = call.store().instances().await?;
        if let Some(present) = instances.into_iter().find(|one| one.id == id) {
            let serves = present.types.clone();
            if narrowed(call, present).types != serves {
                call.caller.require_all_types()?;
            }
        }
        call.store().withdraw(&id).await?;
        Ok(pb::WithdrawResponse {})
    }
}

impl Run for pb::InstancesRequest {
    async fn run(self, call: &Call) -> Result<Self::Answer, CallError> {
        let instances = call.store().instances().await?;
        let instances = instances.into_iter().map(|one| narrowed(call, one).into());
        Ok(pb::InstancesResponse {
            instances: instances.collect(),
        })
    }
}

/// An instance restricted to the types that the token covers. The number of types stays, so that
/// the instance still counts as one that may serve others.
fn narrowed(call: &Call, mut instance: InstanceInfo) -> InstanceInfo {
    let is_covered = |task_type: &TaskType| call.caller.require_type(task_type.as_str()).is_ok();
    instance.types.retain(is_covered);
    if let Some(recent) = &mut instance.recent {
        recent.types.retain(|work| is_covered(&work.task_type));
    }
    instance
}
