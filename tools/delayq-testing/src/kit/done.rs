//! Memory of the tasks that are done, as the store forgets them after the retention.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use delayq_core::store::{AttemptEnd, SettleOutcome};
use delayq_core::{TaskId, TaskType};

use crate::faulty::Observed;

/// The tasks that were done. Clones share them.
#[derive(Clone, Debug, Default)]
pub(super) struct Done(Arc<Mutex<HashSet<(TaskType, TaskId)>>>);

impl Done {
    /// Records an effect on the store.
    pub(super) fn observe(&self, observed: Observed<'_>) {
        let Observed::Settle {
            bucket,
            settlements,
            outcomes,
        } = observed
        else {
            return;
        };
        for (settlement, outcome) in settlements.iter().zip(outcomes) {
            if settlement.end == AttemptEnd::Done && *outcome == SettleOutcome::Settled {
                let id = settlement.lock.id.clone();
                self.lock().insert((bucket.task_type().clone(), id));
            }
        }
    }

    pub(super) fn has(&self, task_type: &TaskType, id: &TaskId) -> bool {
        self.lock().contains(&(task_type.clone(), id.clone()))
    }

    /// The ids of a type, sorted.
    pub(super) fn ids(&self, task_type: &TaskType) -> Vec<TaskId> {
        let done = self.lock();
        let of_type = done.iter().filter(|(other, _)| other == task_type);
        let mut ids: Vec<_> = of_type.map(|(_, id)| id.clone()).collect();
        ids.sort();
        ids
    }

    fn lock(&self) -> MutexGuard<'_, HashSet<(TaskType, TaskId)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
