//! Replies, as calls to the engine.

use async_trait::async_trait;
use delayq_core::error::Result;
use delayq_core::name::{TaskId, TaskType};
use delayq_core::replies::Replies;
use delayq_core::reply::{KeptReply, Reply};
use delayq_core::task::Lock;

use crate::commit::{Lane, Size};
use crate::operations::replies;
use crate::rows::{Tx, TypeTasks};
use crate::store::SqliteStore;

#[async_trait]
impl Replies for SqliteStore {
    async fn keep_reply(&self, task_type: &TaskType, lock: &Lock, reply: &Reply) -> Result<bool> {
        reply.check()?;
        let (task_type, lock, reply) = (task_type.clone(), lock.clone(), reply.clone());
        let size = Size {
            tasks: 1,
            bytes: reply.body.len(),
        };
        let keep = move |tx: &mut Tx<'_>| replies::keep(&tx.made(&task_type)?, &lock, &reply);
        self.engine.write(Lane::Operations, size, keep).await
    }

    async fn reply(&self, task_type: &TaskType, id: &TaskId) -> Result<Option<KeptReply>> {
        let id = id.clone();
        let find = move |tasks: &mut TypeTasks<'_>| replies::find(tasks, &id);
        self.query(task_type, find).await
    }
}
