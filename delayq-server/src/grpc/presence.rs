//! Running instances.

use delayq_core::presence::{InstanceId, InstanceInfo};
use delayq_plugin::{Result, TaskType};
use delayq_proto::{pb, read_span, required};

use super::call::{Call, Operation};
use super::refusal::Refusal;
use crate::access::Scope;

impl Operation for pb::AnnounceRequest {
    type Answer = pb::AnnounceResponse;
    const SCOPE: Option<Scope> = Some(Scope::Work);

    fn namespace(&self) -> &str {
        &self.namespace
    }

    async fn run(self, call: &Call) -> Result<Self::Answer, Refusal> {
        let instance: InstanceInfo = required("instance", self.instance)?.try_into()?;
        let holds = read_span("holds", required("holds", self.holds)?)?;
        let instance = narrowed(call, instance);
        call.store().announce(&instance, holds).await?;
        Ok(pb::AnnounceResponse {})
    }
}

impl Operation for pb::WithdrawRequest {
    type Answer = pb::WithdrawResponse;
    const SCOPE: Option<Scope> = Some(Scope::Work);

    fn namespace(&self) -> &str {
        &self.namespace
    }

    async fn run(self, call: &Call) -> Result<Self::Answer, Refusal> {
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

impl Operation for pb::InstancesRequest {
    type Answer = pb::InstancesResponse;
    const SCOPE: Option<Scope> = Some(Scope::Read);

    fn namespace(&self) -> &str {
        &self.namespace
    }

    async fn run(self, call: &Call) -> Result<Self::Answer, Refusal> {
        let instances = call.store().instances().await?;
        let instances = instances.into_iter().map(|one| narrowed(call, one).into());
        Ok(pb::InstancesResponse {
            instances: instances.collect(),
        })
    }
}

/// An instance, as a token for some types tells of it and is told of it. Its number of types stays,
/// so that it counts as one that may serve others.
fn narrowed(call: &Call, mut instance: InstanceInfo) -> InstanceInfo {
    let is_covered = |task_type: &TaskType| call.caller.require_type(task_type.as_str()).is_ok();
    instance.types.retain(is_covered);
    if let Some(recent) = &mut instance.recent {
        recent.types.retain(|work| is_covered(&work.task_type));
    }
    instance
}
