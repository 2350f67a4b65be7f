//! Running instances.

use delayq_core::presence::{InstanceId, InstanceInfo};
use delayq_plugin::Result;
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
        Ok(pb::InstancesResponse {
            instances: instances.into_iter().map(Into::into).collect(),
        })
    }
}
