//! What this process knows of each type.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use delayq_core::name::TaskType;

use crate::floors::Floors;

/// What this process knows of each type. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(crate) struct Locals(Arc<Mutex<HashMap<TaskType, Local>>>);

#[derive(Debug, Default)]
struct Local {
    floors: Floors,
    /// Ends since the oldest ones were looked at.
    ends: usize,
}

impl Locals {
    pub(crate) fn with_floors<R>(
        &self,
        task_type: &TaskType,
        work: impl FnOnce(&mut Floors) -> R,
    ) -> R {
        self.with(task_type, |local| work(&mut local.floors))
    }

    /// Counts ends. True once there are more than `most` since the last time.
    pub(crate) fn count_ends(&self, task_type: &TaskType, ended: usize, most: usize) -> bool {
        self.with(task_type, |local| {
            local.ends += ended;
            let is_due = local.ends > most.max(1);
            if is_due {
                local.ends = 0;
            }
            is_due
        })
    }

    fn with<R>(&self, task_type: &TaskType, work: impl FnOnce(&mut Local) -> R) -> R {
        let mut locals = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        work(locals.entry(task_type.clone()).or_default())
    }
}
