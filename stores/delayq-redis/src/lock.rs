//! The lock of what several threads share.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks it, also after a panic: nothing that stands behind a lock here is half changed by one.
pub(crate) fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}
