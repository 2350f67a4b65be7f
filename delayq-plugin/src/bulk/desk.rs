//! What a bulk change works with.

use std::sync::Arc;

use delayq_core::store::CancelOutcome;
use delayq_core::{Result, Store, TaskId, TaskType};
use tracing::debug;

use crate::events::{EventHub, TaskEventKind};

/// A store, and who hears of cancelled tasks.
#[derive(Clone, Debug)]
pub(crate) struct Desk {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) hub: EventHub,
}

impl Desk {
    pub(crate) async fn cancel(&self, task_type: &TaskType, id: &TaskId) -> Result<CancelOutcome> {
        let outcome = self.store.cancel(task_type, id).await?;
        debug!(%task_type, %id, ?outcome, "cancel");
        if outcome == CancelOutcome::Cancelled {
            let cancelled = || TaskEventKind::Cancelled;
            self.hub.emit(task_type, id, cancelled);
        }
        Ok(outcome)
    }
}
