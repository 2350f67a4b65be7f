//! What a plugin declares to its submit service.

use std::sync::{Arc, OnceLock};

use delayq_core::Timestamp;

use crate::recurring::Recurring;

/// The recurring tasks of the plugin whose service it is, and when that started; nothing for a
/// service without one. Clones share it: components have the service before it is known.
#[derive(Clone, Debug, Default)]
pub(crate) struct Declared(Arc<OnceLock<(Vec<Recurring>, Timestamp)>>);

impl Declared {
    /// Takes what a plugin declares that starts at `since`; once.
    pub(crate) fn set(&self, recurring: Vec<Recurring>, since: Timestamp) {
        let _ = self.0.set((recurring, since));
    }

    /// The recurring tasks.
    pub(crate) fn recurring(&self) -> &[Recurring] {
        self.0.get().map_or(&[], |(recurring, _)| recurring)
    }

    /// When the plugin started.
    pub(crate) fn since(&self) -> Timestamp {
        self.0.get().map_or(Timestamp::ZERO, |(_, since)| *since)
    }
}
