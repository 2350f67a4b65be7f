//! What a bulk change works with.

use std::sync::Arc;

use delayq_core::store::CancelOutcome;
use delayq_core::{Result, Store, TaskId, TaskType};
use tracing::debug;

use crate::events::TaskEventKind;
use crate::telemetry::Telemetry;

/// A store, and who hears of cancelled tasks.
#[derive(Clone, Debug)]
pub(crate) struct Desk {
    pub(crate) store: Arc<dyn Store>,
    telemetry: Telemetry,
}

impl Desk {
    pub(crate) fn new(store: &Arc<dyn Store>, telemetry: &Telemetry) -> Self {
        Self {
            store: Arc::clone(store),
            telemetry: telemetry.clone(),
        }
    }

    pub(crate) async fn cancel(&self, task_type: &TaskType, id: &TaskId) -> Result<CancelOutcome> {
        let outcome = self.store.cancel(task_type, id).await?;
        debug!(%task_type, %id, ?outcome, "cancel");
        if outcome == CancelOutcome::Cancelled {
            let cancelled = || TaskEventKind::Cancelled;
            self.telemetry.hub.emit(task_type, id, cancelled);
            if let Some(metrics) = &self.telemetry.metrics {
                metrics.sends(task_type).cancelled();
            }
        }
        Ok(outcome)
    }
}
