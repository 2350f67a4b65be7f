//! From where a namespace is seen.

use std::sync::Arc;

use delayq_core::task::Headers;
use delayq_plugin::store::NewTask;
use delayq_plugin::{Result, TaskId, TaskType};

use crate::push::{Seals, refuse_reserved, veil};

/// From where the store of a namespace is used. Targets of single tasks are in their headers, and
/// these are the server's alone.
#[derive(Debug)]
pub(super) enum Side {
    /// By the server itself.
    Within,
    /// By clients, whichever door they come through: such headers are neither taken nor shown.
    Door(Arc<Seals>),
}

impl Side {
    /// Refuses a task with headers that its sender does not give it.
    pub(super) fn check(&self, task: &NewTask) -> Result<()> {
        match self {
            Self::Within => Ok(()),
            Self::Door(_) => refuse_reserved(task.headers.keys()),
        }
    }

    /// Takes headers away that are not shown.
    pub(super) fn veil(&self, headers: &mut Headers) {
        if let Self::Door(_) = self {
            veil(headers);
        }
    }

    /// The headers that a task gets together with another message.
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
