//! The two sides from which a store is used: the server itself, and clients.

use std::sync::Arc;

use delayq_core::task::Headers;
use delayq_plugin::store::NewTask;
use delayq_plugin::{Result, TaskId, TaskType};

use crate::push::{Seals, refuse_reserved, veil};

/// The user of a namespace's store. Headers hold the targets of single tasks, and only the server
/// may read or write them.
#[derive(Debug)]
pub(super) enum Side {
    /// The server itself.
    Within,
    /// A client. Reserved headers are refused in its tasks and hidden from it.
    Door(Arc<Seals>),
}

impl Side {
    /// Refuses a task with headers that its sender may not set.
    pub(super) fn check(&self, task: &NewTask) -> Result<()> {
        match self {
            Self::Within => Ok(()),
            Self::Door(_) => refuse_reserved(task.headers.keys()),
        }
    }

    /// Removes headers that the reader may not see.
    pub(super) fn veil(&self, headers: &mut Headers) {
        if let Self::Door(_) = self {
            veil(headers);
        }
    }

    /// The headers to replace together with a task's message.
    pub(super) async fn headers_of_update(
        &self,
        task_type: &TaskType,
        id: &TaskId,
        message: &[u8],
    ) -> Result<Headers> {
        match self {
            Self::Within => Ok(Headers::new()),
            Self::Door(seals) => seals.of_update(task_type, id, message).await,
        }
    }
}
