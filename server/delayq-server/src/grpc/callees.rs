//! Applications that announced themselves to be called.

use delayq_plugin::Timestamp;
use delayq_proto::{pb, read_span, time};
use delayq_service::operation::callee;

use super::call::{Call, Run};
use super::refusal::CallError;

impl Run for pb::CalleesRequest {
    async fn run(self, call: &Call) -> Result<Self::Answer, CallError> {
        call.caller.require_all_types()?;
        let all = call.space.push.callees().await?.into_iter();
        let callees = all.map(|(name, announced)| pb::Callee {
            name,
            url: announced.url,
            task_types: announced.types.iter().map(ToString::to_string).collect(),
            until: Some(time(Timestamp::from_millis(announced.until_ms))),
        });
        Ok(pb::CalleesResponse {
            callees: callees.collect(),
        })
    }
}

impl Run for pb::AnnounceCalleeRequest {
    async fn run(self, call: &Call) -> Result<Self::Answer, CallError> {
        let lease = self.lease.map(|span| read_span("lease", span));
        let announcement = callee::Announcement {
            url: self.url,
            types: self.task_types,
            lease: lease.transpose()?,
        };
        let taken = announcement.take(&call.space, &call.caller, &self.name);
        let until = Timestamp::from_millis(taken.await?);
        Ok(pb::AnnounceCalleeResponse {
            until: Some(time(until)),
        })
    }
}

impl Run for pb::WithdrawCalleeRequest {
    async fn run(self, call: &Call) -> Result<Self::Answer, CallError> {
        let withdrawn = callee::withdraw(&call.space, &call.caller, &self.name).await?;
        Ok(pb::WithdrawCalleeResponse { withdrawn })
    }
}
