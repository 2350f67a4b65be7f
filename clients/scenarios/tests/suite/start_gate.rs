//! How many drivers may start at the same time, over all languages: an interpreter or a virtual
//! machine that starts takes a core for itself, and would delay the scenarios that run.

use std::sync::{Condvar, Mutex, PoisonError};

/// Drivers that may start at the same time.
const MOST: usize = 2;

static STARTING: Mutex<usize> = Mutex::new(0);
static STARTED: Condvar = Condvar::new();

/// A place among those that start, free again with the end of this.
#[derive(Debug)]
pub(crate) struct Place(());

impl Place {
    /// Waits for a place.
    pub(crate) fn take() -> Self {
        let starting = STARTING.lock().unwrap_or_else(PoisonError::into_inner);
        let free = STARTED.wait_while(starting, |starting| *starting >= MOST);
        *free.unwrap_or_else(PoisonError::into_inner) += 1;
        Self(())
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        *STARTING.lock().unwrap_or_else(PoisonError::into_inner) -= 1;
        STARTED.notify_one();
    }
}
