//! What a plugin declares to its submit service.

use std::sync::{Arc, OnceLock};

use delayq_core::Timestamp;

use super::TaskSubmitService;
use crate::recurring::Recurring;

/// The recurring tasks of the plugin whose service it is, and when that started; nothing for a
/// service without one. Clones share it: components have the service before it is known.
#[derive(Clone, Debug, Default)]
pub(super) struct Declared(Arc<OnceLock<(Vec<Recurring>, Timestamp)>>);

impl TaskSubmitService {
    /// Gives this service and its clones the recurring tasks of its plugin, which starts now; once.
    pub(crate) fn declare(&self, recurring: Vec<Recurring>) {
        let _ = self.declared.0.set((recurring, self.clock.now()));
    }

    /// The recurring tasks that its plugin declares.
    pub(crate) fn own_recurring(&self) -> &[Recurring] {
        self.declared
            .0
            .get()
            .map_or(&[], |(recurring, _)| recurring)
    }

    /// When its plugin started.
    pub(crate) fn since(&self) -> Timestamp {
        self.declared
            .0
            .get()
            .map_or(Timestamp::ZERO, |(_, since)| *since)
    }
}
