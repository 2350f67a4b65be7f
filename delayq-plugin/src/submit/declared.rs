//! What a plugin declares to its submit service.

use std::sync::{Arc, PoisonError, RwLock};

use delayq_core::{TaskType, Timestamp};

use crate::recurring::Recurring;

/// Recurring tasks, each with the time from which it is declared.
type Declarations = Arc<[(Recurring, Timestamp)]>;

/// The recurring tasks of the plugin whose service it is; nothing for a service without one. Clones
/// share it: components have the service before it is known.
#[derive(Clone, Debug, Default)]
pub(crate) struct Declared(Arc<RwLock<Declarations>>);

impl Declared {
    /// Takes what a plugin declares that starts at `since`; once.
    pub(crate) fn set(&self, recurring: &[Recurring], since: Timestamp) {
        let since_now = recurring.iter().map(|one| (one.clone(), since));
        self.change(|_| since_now.collect());
    }

    /// Declares one more at `since`, in the place of that of its type and name.
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

    /// Declares one no more.
    pub(crate) fn remove(&self, task_type: &TaskType, name: &str) {
        self.change(|declared| {
            let others = declared
                .iter()
                .filter(|(one, _)| !one.is_named(task_type, name));
            others.cloned().collect()
        });
    }

    /// The recurring tasks, as they are declared now.
    pub(crate) fn recurring(&self) -> Declarations {
        Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn change(&self, change: impl FnOnce(&[(Recurring, Timestamp)]) -> Declarations) {
        let mut declared = self.0.write().unwrap_or_else(PoisonError::into_inner);
        *declared = change(&declared);
    }
}
