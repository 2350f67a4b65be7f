//! Cancels with their counts and reports: of one task, and of several at once.

use std::sync::Arc;

use delayq_core::store::{CancelOutcome, MAX_BATCH};
use delayq_core::{Error, Result, Store, TaskId, TaskType};
use tracing::debug;

use crate::events::TaskEventKind;
use crate::telemetry::Telemetry;

/// A store, and the reporting of cancelled tasks.
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

/// Cancels several tasks concurrently, so that they share the store's syncs and round trips; one
/// result for each, in order.
pub(crate) async fn cancel_each(
    desk: &Desk,
    task_type: Result<TaskType>,
    ids: Vec<Result<TaskId>>,
) -> Vec<Result<CancelOutcome>> {
    let mut results = Vec::with_capacity(ids.len());
    let mut ids = ids.into_iter();
    loop {
        let start = |id| {
            let (desk, task_type) = (desk.clone(), task_type.clone());
            tokio::spawn(async move { desk.cancel(&task_type?, &id?).await })
        };
        let calls: Vec<_> = ids.by_ref().take(MAX_BATCH).map(start).collect();
        if calls.is_empty() {
            return results;
        }
        for call in calls {
            let ended = call.await;
            results.push(ended.unwrap_or(Err(Error::Closed("the runtime"))));
        }
    }
}
