//! Slots of this process: how many attempts may run at the same time, and which type is next.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use delayq_core::presence::{MAX_INSTANCE_POOLS, PoolUse};
use delayq_core::{Error, Result, TaskType, TypePattern, WorkerOptions};

mod fair_queue;
mod pool;
#[cfg(test)]
mod tests;

pub(crate) use pool::{Place, Reserved, Slot, TypeSlots};

use self::pool::Pool;
use crate::error::StartError;

/// The largest weight.
pub(crate) const MAX_WEIGHT: u32 = 100;

/// The declared pools, and the slots of all served types.
#[derive(Clone, Debug, Default)]
pub(crate) struct Slots(Arc<Mutex<SlotState>>);

#[derive(Debug, Default)]
struct SlotState {
    pools: BTreeMap<String, Pool>,
    weights: Vec<(TypePattern, u32)>,
    types: BTreeMap<TaskType, TypeSlots>,
    /// Numbers set at run time, latest last. Types served later get them, too.
    set: Vec<(TypePattern, usize)>,
}

impl Slots {
    fn state(&self) -> MutexGuard<'_, SlotState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a pool.
    pub(crate) fn declare(&self, name: &str, size: usize) -> Result<(), StartError> {
        let refused = |reason: &str| {
            let (pool, reason) = (name.to_owned(), reason.to_owned());
            Err(StartError::InvalidPool { pool, reason })
        };
        if size == 0 {
            return refused("it has at least 1 slot: with 0 nothing of it would ever run");
        }
        let before = self.state().pools.insert(name.to_owned(), Pool::new(size));
        match before {
            None => Ok(()),
            Some(_) => refused("it is declared twice: remove one .pool(..)"),
        }
    }

    /// Gives the types of `pattern` a weight that overrides that of their workers.
    pub(crate) fn weigh(&self, pattern: &str, weight: u32) -> Result<(), StartError> {
        let pattern = TypePattern::new(pattern)?;
        if !(1..=MAX_WEIGHT).contains(&weight) {
            let (option, reason) = ("weight", "a weight of 1 to 100");
            return Err(StartError::InvalidSetting { option, reason });
        }
        let mut state = self.state();
        state.weights.retain(|(other, _)| *other != pattern);
        state.weights.push((pattern, weight));
        Ok(())
    }

    pub(crate) fn pools(&self) -> Vec<String> {
        self.state().pools.keys().cloned().collect()
    }

    /// The pools as they are now, by name.
    pub(crate) fn uses(&self) -> Vec<PoolUse> {
        let state = self.state();
        let pools = state.pools.iter().take(MAX_INSTANCE_POOLS);
        pools.map(|(name, pool)| pool.to_use(name)).collect()
    }

    pub(crate) fn weighed(&self) -> Vec<TypePattern> {
        let state = self.state();
        state.weights.iter().map(|(one, _)| one.clone()).collect()
    }

    /// The slots of a type that is served from now on.
    pub(crate) fn serve(&self, task_type: &TaskType, options: &WorkerOptions) -> TypeSlots {
        let mut state = self.state();
        let set = state.set.iter().rev();
        let size = closest(set, task_type).unwrap_or(options.concurrency);
        let pool = options.pool.and_then(|name| state.pools.get(name));
        let slots = match pool {
            Some(pool) => pool.join(size, state.weight(task_type, options)),
            None => Pool::new(usize::MAX).join(size, 1),
        };
        state.types.insert(task_type.clone(), slots.clone());
        slots
    }

    /// Forgets a type that is no longer served.
    pub(crate) fn forget(&self, task_type: &TaskType) {
        self.state().types.remove(task_type);
    }

    /// Changes the concurrency of the types that `pattern` matches, now and later. Returns the
    /// number of types served now that match.
    pub(crate) fn set_concurrency(&self, pattern: TypePattern, size: usize) -> usize {
        let mut state = self.state();
        let types = state.types.iter();
        let met = types.filter(|(task_type, _)| pattern.matches(task_type));
        let met = met.map(|(_, slots)| slots.resize(size)).count();
        state.set.retain(|(other, _)| *other != pattern);
        state.set.push((pattern, size));
        met
    }

    /// Makes types served from now on use the concurrency of their workers again.
    pub(crate) fn forget_set(&self) {
        self.state().set.clear();
    }

    pub(crate) fn set_pool(&self, name: &str, size: usize) -> Result<()> {
        let state = self.state();
        let Some(pool) = state.pools.get(name) else {
            let names: Vec<_> = state.pools.keys().map(String::as_str).collect();
            let reason = format!(
                "there is no pool {name:?}: declare it with .pool({name:?}, n) of the builder; \
                 there are: [{}]",
                names.join(", ")
            );
            return Err(Error::invalid("pool", reason));
        };
        pool.resize(size);
        Ok(())
    }
}

impl SlotState {
    /// The weight by the longest pattern, or else by the worker.
    fn weight(&self, task_type: &TaskType, options: &WorkerOptions) -> u32 {
        let mut weights: Vec<_> = self.weights.iter().collect();
        weights.sort_by_key(|(pattern, _)| std::cmp::Reverse(pattern.rank()));
        closest(weights, task_type).unwrap_or(options.weight)
    }
}

/// The value of the first pattern that matches.
fn closest<'a, T: Copy + 'a>(
    patterns: impl IntoIterator<Item = &'a (TypePattern, T)>,
    task_type: &TaskType,
) -> Option<T> {
    let mut patterns = patterns.into_iter();
    let found = patterns.find(|(pattern, _)| pattern.matches(task_type));
    found.map(|(_, value)| *value)
}
