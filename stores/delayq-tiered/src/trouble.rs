//! What keeps promoters from moving tasks, for the concerns of the store.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use delayq_core::store::Concern;
use delayq_core::{Error, TaskType};
use tracing::{info, warn};

/// The last error of each type whose tasks are not moved.
#[derive(Debug, Default)]
pub(crate) struct Trouble(Mutex<BTreeMap<TaskType, Error>>);

impl Trouble {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<TaskType, Error>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that tasks of a type could not be moved.
    pub(crate) fn note(&self, task_type: &TaskType, error: &Error) {
        let before = self.lock().insert(task_type.clone(), error.clone());
        if before.is_none() {
            warn!(%task_type, %error, "far tasks are not moved to hot; it is tried again");
        }
    }

    /// Notes that they are moved again.
    pub(crate) fn end(&self, task_type: &TaskType) {
        if self.lock().remove(task_type).is_some() {
            info!(%task_type, "far tasks are moved to hot again");
        }
    }

    /// The concern of each type.
    pub(crate) fn concerns(&self) -> Vec<Concern> {
        let types = self.lock();
        let concerns = types.iter().map(|(task_type, error)| {
            Concern::new(
                format!("far tasks of {task_type} are not moved to the hot store: {error}"),
                "those that become due meanwhile start late",
                "see to the store that the error names, or raise its limit; nothing is lost, and \
                 they are moved as soon as that is possible",
            )
        });
        concerns.collect()
    }
}
