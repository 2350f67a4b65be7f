//! Replies: kept in the store that holds the task, looked up in both.

use async_trait::async_trait;
use delayq_plugin::store::{KeptReply, Replies, Reply};
use delayq_plugin::{Lock, Result, TaskId, TaskType};

use super::placed_store::PlacedStore;

#[async_trait]
impl Replies for PlacedStore {
    async fn keep_reply(&self, task_type: &TaskType, lock: &Lock, reply: &Reply) -> Result<bool> {
        let view = self.view()?;
        let mut home = &view.new;
        if let Some(old) = &view.old {
            let found = old.store.find(task_type, &lock.id).await?;
            if found.is_some_and(|task| !task.state.is_ended()) {
                home = old;
            }
        }
        home.store.keep_reply(task_type, lock, reply).await
    }

    async fn reply(&self, task_type: &TaskType, id: &TaskId) -> Result<Option<KeptReply>> {
        let view = self.view()?;
        let kept = view.new.store.reply(task_type, id).await?;
        match &view.old {
            Some(old) if kept.is_none() => old.store.reply(task_type, id).await,
            _ => Ok(kept),
        }
    }
}
