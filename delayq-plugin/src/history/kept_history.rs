//! The history of a service, with the state of who ships to it in this process.

use std::sync::{Arc, Mutex, PoisonError};

use delayq_history::HistoryStore;

use super::health::HistoryHealth;

/// A history. Clones share the state of the shipping.
#[derive(Clone, Debug)]
pub(crate) struct KeptHistory {
    pub(super) store: Arc<HistoryStore>,
    /// None until somebody ships.
    health: Arc<Mutex<Option<HistoryHealth>>>,
}

impl KeptHistory {
    pub(crate) fn new(store: Arc<HistoryStore>) -> Self {
        Self {
            store,
            health: Arc::default(),
        }
    }

    /// The state of the shipping, if somebody ships in this process.
    pub(super) fn health(&self) -> Option<HistoryHealth> {
        let health = self.health.lock();
        health.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Changes the state of the shipping.
    pub(super) fn update<T>(&self, change: impl FnOnce(&mut HistoryHealth) -> T) -> T {
        let mut health = self.health.lock().unwrap_or_else(PoisonError::into_inner);
        change(health.get_or_insert_with(|| HistoryHealth::of(self.store.place())))
    }
}
