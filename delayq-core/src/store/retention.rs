//! Warning about ended tasks that are forgotten before their retention is over.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::name::TaskType;

/// The interval between two warnings of a process.
const WARN_EVERY: Duration = Duration::from_hours(1);

/// Warns that ended tasks of a type are forgotten before their retention is over, as there are more
/// than [`StoreOptions::remembered`](super::StoreOptions::remembered). Logged once an hour in a
/// process. Called by stores.
pub fn warn_of_early_forgetting(task_type: &TaskType, remembered: usize) {
    static LAST: Mutex<Option<Instant>> = Mutex::new(None);
    let mut last = LAST.lock().unwrap_or_else(PoisonError::into_inner);
    if last.is_none_or(|last| last.elapsed() >= WARN_EVERY) {
        *last = Some(Instant::now());
        tracing::warn!(%task_type, remembered,
            "ended tasks are forgotten before their retention is over: a request that is repeated \
             later runs again; raise `remembered` or shorten `retention` (stats tell the true span)");
    }
}
