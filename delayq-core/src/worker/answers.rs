//! Replies that the workers of an attempt have given so far.

use std::sync::{Mutex, PoisonError};

use crate::reply::Reply;

/// One reply per worker, with the worker's index. Most attempts have none.
#[derive(Debug, Default)]
pub(super) struct Answers(Mutex<Vec<(usize, Reply)>>);

impl Answers {
    /// Adds a reply, replacing an earlier one of the worker.
    pub(super) fn give(&self, worker: usize, reply: Reply) {
        let mut given = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        given.retain(|(of, _)| *of != worker);
        given.push((worker, reply));
    }

    pub(super) fn take(&self, worker: usize) -> Option<Reply> {
        let mut given = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let found = given.iter().position(|(of, _)| *of == worker)?;
        Some(given.swap_remove(found).1)
    }
}
