//! Replies.

use delayq_core::reply::Reply;
use delayq_proto::{pb, read_span, required, time};

use super::call::{Call, Operation};
use super::refusal::Refusal;
use crate::access::Scope;

impl Operation for pb::KeepReplyRequest {
    type Answer = pb::KeepReplyResponse;
    const SCOPE: Option<Scope> = Some(Scope::Work);

    fn namespace(&self) -> &str {
        &self.namespace
    }

    async fn run(self, call: &Call) -> Result<Self::Answer, Refusal> {
        let task_type = call.task_type(&self.task_type)?;
        let lock = required("lock", self.lock)?.try_into()?;
        let retention = read_span("retention", required("retention", self.retention)?)?;
        let reply = Reply::bytes(self.body).content_type(self.content_type);
        let reply = reply.keep_for(retention);
        let kept = call.store().keep_reply(&task_type, &lock, &reply).await?;
        Ok(pb::KeepReplyResponse { kept })
    }
}

impl Operation for pb::GetReplyRequest {
    type Answer = pb::GetReplyResponse;
    const SCOPE: Option<Scope> = Some(Scope::Read);

    fn namespace(&self) -> &str {
        &self.namespace
    }

    async fn run(self, call: &Call) -> Result<Self::Answer, Refusal> {
        let (task_type, id) = call.task(&self.task_type, &self.id)?;
        let reply = call.store().reply(&task_type, &id).await?;
        let reply = reply.map(|reply| pb::KeptReply {
            fence: reply.fence,
            content_type: reply.content_type,
            body: reply.body,
            at: Some(time(reply.at)),
        });
        Ok(pb::GetReplyResponse { reply })
    }
}
