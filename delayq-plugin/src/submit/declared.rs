//! A plugin's declarations for its submit service.

use std::sync::{Arc, PoisonError, RwLock};

use delayq_core::{TaskType, Timestamp};

use crate::recurring::Recurring;

/// Recurring tasks, each with the time of its declaration.
type Declarations = Arc<[(Recurring, Timestamp)]>;

/// The recurring tasks of the service's plugin; empty for a service without one. Clones share them,
/// as components get the service before they are declared.
#[derive(Clone, Debug, Default)]
pub(crate) struct Declared(Arc<RwLock<Declarations>>);

impl Declared {
    /// Sets the declarations of a plugin that starts at `since`; called once.
    pub(crate) fn set(&self, recurring: &[Recurring], since: Timestamp) {
        let since_now = recurring.iter().map(|one| (one.clone(), since));
        self.change(|_| since_now.collect());
    }

    /// Declares one more at `since`, replacing the one with its type and name.
    pub(crate) fn add(&self, recurring: &Recurring, since: Timestamp) {
        self.change(|declared| {
            let others = declared
                .iter()
                .filter(|(one, _)| !one.is_named(&recurring.task_type, &recurring.name));
            others
                .cloned()
                .chain([(recurring.clone(), since)])
                .collect()
        });
    }

    /// Removes a declaration.
    pub(crate) fn remove(&self, task_type: &TaskType, name: &str) {
        self.change(|declared| {
            let others = declared
                .iter()
                .filter(|(one, _)| !one.is_named(task_type, name));
            others.cloned().collect()
        });
    }

    /// The recurring tasks declared now.
    pub(crate) fn recurring(&self) -> Declarations {
        Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn change(&self, change: impl FnOnce(&[(Recurring, Timestamp)]) -> Declarations) {
        let mut declared = self.0.write().unwrap_or_else(PoisonError::into_inner);
        *declared = change(&declared);
    }
}
