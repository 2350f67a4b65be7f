//! The replies, counted.

use async_trait::async_trait;
use delayq_core::reply::{KeptReply, Reply};
use delayq_core::{Lock, Replies, Result, TaskId, TaskType};

use super::MeteredStore;

#[async_trait]
impl Replies for MeteredStore {
    async fn keep_reply(&self, task_type: &TaskType, lock: &Lock, reply: &Reply) -> Result<bool> {
        let keep = self.inner.keep_reply(task_type, lock, reply);
        self.call(&self.calls.keep_reply, keep).await
    }

    async fn reply(&self, task_type: &TaskType, id: &TaskId) -> Result<Option<KeptReply>> {
        let read = self.inner.reply(task_type, id);
        self.call(&self.calls.reply, read).await
    }
}
