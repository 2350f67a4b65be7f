//! Locking of state shared by several threads.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks the mutex, even after a panic: no state behind a lock in this crate is left half changed
/// by one.
pub(crate) fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}
