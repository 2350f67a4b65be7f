//! Replies: what workers answered to those who wait for their tasks. No operation on tasks reads
//! them.

use async_trait::async_trait;

use crate::error::{Error, Result};
use crate::name::{TaskId, TaskType};
use crate::reply::{KeptReply, Reply};
use crate::task::Lock;

/// Replies of a namespace, one a task, each until its retention is over. The methods are optional:
/// a store that does not have one answers [`Error::Unsupported`].
#[async_trait]
pub trait Replies: Send + Sync {
    /// Keeps the reply of an attempt, in the place of an earlier one; whether it was kept: not if
    /// one of a larger fence is there. It is kept before the attempt is settled as done, so that
    /// whoever sees the task done finds its reply; a crash between the two leads to a repeat, whose
    /// fence is larger. It is as durable as an accepted task. Repeating it is harmless.
    ///
    /// # Errors
    /// `InvalidInput` for a reply that [cannot be kept](Reply::check), and those of the store.
    async fn keep_reply(&self, task_type: &TaskType, lock: &Lock, reply: &Reply) -> Result<bool> {
        let _ = (task_type, lock, reply);
        Err(Error::Unsupported("keep_reply"))
    }

    /// The reply that is kept for a task; `None` when there is none, or its retention is over.
    ///
    /// # Errors
    /// Those of the store.
    async fn reply(&self, task_type: &TaskType, id: &TaskId) -> Result<Option<KeptReply>> {
        let _ = (task_type, id);
        Err(Error::Unsupported("reply"))
    }
}
