//! The replies, through the plan.

use async_trait::async_trait;
use delayq_core::reply::{KeptReply, Reply};
use delayq_core::{Lock, Replies, Result, TaskId, TaskType};

use super::FaultyStore;

#[async_trait]
impl Replies for FaultyStore {
    async fn keep_reply(&self, task_type: &TaskType, lock: &Lock, reply: &Reply) -> Result<bool> {
        let keep = self.inner.keep_reply(task_type, lock, reply);
        self.call("keep_reply", keep).await
    }

    async fn reply(&self, task_type: &TaskType, id: &TaskId) -> Result<Option<KeptReply>> {
        self.call("reply", self.inner.reply(task_type, id)).await
    }
}
