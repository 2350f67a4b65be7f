//! The floor of recorded ends: where their scans begin.
//!
//! Records that were removed leave dead rows at the head of the queue until a vacuum, which waits
//! for the oldest open transaction. A scan from the first record that was seen passes them over.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// How long a floor counts. What lies below one by then was committed late.
const FLOOR_FOR: Duration = Duration::from_secs(10);

/// The number below which no record waits, as far as this process knows.
#[derive(Debug, Default)]
pub(crate) struct EndsFloor(Mutex<Floor>);

#[derive(Debug, Default)]
struct Floor {
    number: i64,
    since: Option<Instant>,
}

impl EndsFloor {
    fn lock(&self) -> MutexGuard<'_, Floor> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The number to begin with; 0 now and then.
    pub(crate) fn get(&self) -> i64 {
        let mut floor = self.lock();
        if floor.since.is_none_or(|since| since.elapsed() >= FLOOR_FOR) {
            *floor = Floor {
                number: 0,
                since: Some(Instant::now()),
            };
        }
        floor.number
    }

    /// Notes the first record that a scan from [`get`](Self::get) has found.
    pub(crate) fn note(&self, first: i64) {
        let mut floor = self.lock();
        floor.number = floor.number.max(first);
    }
}
