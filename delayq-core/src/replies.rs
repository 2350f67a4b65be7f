//! Replies: workers' answers to callers that wait for their tasks. No operation on tasks reads
//! them.

use async_trait::async_trait;

use crate::error::{Error, Result};
use crate::name::{TaskId, TaskType};
use crate::reply::{KeptReply, Reply};
use crate::task::Lock;

/// Replies of a namespace, one for each task, each kept until its retention is over. The methods
/// are optional: a store without one answers [`Error::Unsupported`].
#[async_trait]
pub trait Replies: Send + Sync {
    /// Keeps the reply of an attempt, replacing an earlier one. Returns false, and does not keep
    /// it, if there is a reply with a larger fence. The reply is kept before the attempt is settled
    /// as done, so that everybody who sees the task done finds its reply; a crash between the two
    /// leads to a repeat with a larger fence. A reply is as durable as an accepted task. A repeated
    /// call is harmless.
    ///
    /// # Errors
    /// `InvalidInput` for a reply that [cannot be kept](Reply::check), and the store's errors.
    async fn keep_reply(&self, task_type: &TaskType, lock: &Lock, reply: &Reply) -> Result<bool> {
        let _ = (task_type, lock, reply);
        Err(Error::Unsupported("keep_reply"))
    }

    /// The reply kept for a task; `None` if there is none or its retention is over.
    ///
    /// # Errors
    /// The store's errors.
    async fn reply(&self, task_type: &TaskType, id: &TaskId) -> Result<Option<KeptReply>> {
        let _ = (task_type, id);
        Err(Error::Unsupported("reply"))
    }
}
