//! The chronicle of a memory store.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;

use super::MemoryStore;
use crate::chronicle::{
    Action, Chronicle, LoggedAction, MAX_ACTION_PAGE, MAX_ACTIONS, Spell, Step, changes, merge,
    read_chunks, slots,
};
use crate::error::Result;
use crate::name::TaskType;
use crate::time::Timestamp;

/// The figures as slots of each type, and the log, oldest action first.
#[derive(Debug, Default)]
pub(super) struct Pages {
    slots: BTreeMap<TaskType, BTreeMap<String, Vec<u8>>>,
    actions: VecDeque<LoggedAction>,
}

impl Pages {
    /// Forgets the figures of a type.
    pub(super) fn forget(&mut self, task_type: &TaskType) {
        self.slots.remove(task_type);
    }
}

/// The pages, even if a holder of the lock panicked.
pub(super) fn open(pages: &Mutex<Pages>) -> MutexGuard<'_, Pages> {
    pages.lock().unwrap_or_else(PoisonError::into_inner)
}

#[async_trait]
impl Chronicle for MemoryStore {
    async fn add_figures(&self, task_type: &TaskType, minutes: &[Spell]) -> Result<()> {
        self.refuse_closed()?;
        let mut pages = open(&self.pages);
        let slots = pages.slots.entry(task_type.clone()).or_default();
        for change in changes(minutes) {
            let slot = change.slot();
            let before = slots.get(&slot).map(Vec::as_slice);
            if let Some(after) = merge(before, &change) {
                slots.insert(slot, after);
            }
        }
        Ok(())
    }

    async fn figures(
        &self,
        task_type: &TaskType,
        step: Step,
        since: Timestamp,
    ) -> Result<Vec<Spell>> {
        self.refuse_closed()?;
        let now = self.clock.now();
        let pages = open(&self.pages);
        let Some(stored) = pages.slots.get(task_type) else {
            return Ok(Vec::new());
        };
        let slots = slots(step, since, now);
        let chunks = slots.iter().filter_map(|slot| stored.get(slot));
        Ok(read_chunks(chunks.map(Vec::as_slice), step, since, now))
    }

    async fn log_action(&self, action: &Action) -> Result<()> {
        self.refuse_closed()?;
        let actions = &mut open(&self.pages).actions;
        let number = actions.back().map_or(1, |last| last.number + 1);
        actions.push_back(LoggedAction::new(number, self.clock.now(), action.clone()));
        if actions.len() > MAX_ACTIONS {
            actions.pop_front();
        }
        Ok(())
    }

    async fn actions(&self, before: Option<u64>, limit: usize) -> Result<Vec<LoggedAction>> {
        self.refuse_closed()?;
        let pages = open(&self.pages);
        let is_before = |one: &&LoggedAction| before.is_none_or(|before| one.number < before);
        let latest_first = pages.actions.iter().rev().filter(is_before);
        Ok(latest_first
            .take(limit.min(MAX_ACTION_PAGE))
            .cloned()
            .collect())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::store::StoreOptions;
    use crate::time::VirtualClock;

    #[tokio::test]
    async fn the_oldest_action_beyond_the_bound_is_forgotten() {
        let store = MemoryStore::new(Arc::new(VirtualClock::default()), StoreOptions::default());
        let action = Action::new("ann", "cli", "pause", "mail.send");
        for _ in 0..=MAX_ACTIONS {
            store.log_action(&action).await.unwrap();
        }
        let numbers = open(&store.pages)
            .actions
            .iter()
            .map(|one| one.number)
            .collect::<Vec<_>>();
        assert_eq!((numbers.len(), numbers[0]), (MAX_ACTIONS, 2));
    }
}
