//! Replies.

use async_trait::async_trait;
use delayq_core::replies::Replies;
use delayq_core::reply::{KeptReply, Reply};
use delayq_core::{Lock, Result, TaskId, TaskType};
use delayq_proto::{pb, read_time, required, span};

use crate::remote::{Client, RemoteStore};

#[async_trait]
impl Replies for RemoteStore {
    async fn keep_reply(&self, task_type: &TaskType, lock: &Lock, reply: &Reply) -> Result<bool> {
        let request = pb::KeepReplyRequest {
            namespace: self.namespace.to_string(),
            task_type: task_type.to_string(),
            lock: Some(lock.clone().into()),
            content_type: reply.content_type.clone(),
            body: reply.body.clone(),
            retention: Some(span(reply.retention)),
        };
        let response = self.call(async move |mut client: Client| client.keep_reply(request).await);
        Ok(response.await?.kept)
    }

    async fn reply(&self, task_type: &TaskType, id: &TaskId) -> Result<Option<KeptReply>> {
        let request = pb::GetReplyRequest {
            namespace: self.namespace.to_string(),
            task_type: task_type.to_string(),
            id: id.to_string(),
        };
        let response = self.call(async move |mut client: Client| client.get_reply(request).await);
        let Some(reply) = response.await?.reply else {
            return Ok(None);
        };
        Ok(Some(KeptReply {
            fence: reply.fence,
            at: read_time("reply.at", required("reply.at", reply.at)?)?,
            content_type: reply.content_type,
            body: reply.body,
        }))
    }
}
