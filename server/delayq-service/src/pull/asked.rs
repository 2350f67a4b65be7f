//! A claim as a client asks for it.

use std::collections::BTreeSet;
use std::time::Duration;

use delayq_plugin::TaskType;
use delayq_plugin::store::MAX_BATCH;

use super::{Demand, Handover, MAX_WAIT, Pull};
use crate::problem::Problem;

/// How long a lock lasts, unless the client says.
const LOCK: Duration = Duration::from_secs(30);
/// Shortest and longest lock.
const LOCKS: std::ops::RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_hours(24);
/// Most types of a claim.
const MAX_TYPES: usize = 100;

/// A claim as a client asks for it.
#[derive(Clone, Debug)]
pub struct Asked {
    /// From these types.
    pub types: Vec<TaskType>,
    /// At most so many tasks; `None`: one.
    pub limit: Option<usize>,
    /// How long to wait for the first one.
    pub wait: Duration,
    /// How long the locks last; `None`: as usual.
    pub lock_for: Option<Duration>,
    /// Whether the types take turns at being the first.
    pub is_fair: bool,
}

impl Asked {
    /// Claims what is asked for, now or within the wait. Dropping it at any point gives back what
    /// was claimed.
    pub async fn claim(mut self, pull: &Pull) -> Result<Handover, Problem> {
        let unique: BTreeSet<_> = self.types.iter().collect();
        let count = self.types.len();
        if !(1..=MAX_TYPES).contains(&count) || unique.len() < count {
            let text = format!("claim up to {MAX_TYPES} types, each once");
            return Err(Problem::bad_request(text));
        }
        let limit = self.limit.unwrap_or(1);
        if !(1..=MAX_BATCH).contains(&limit) {
            let text = format!("limit={limit}: use 1 to {MAX_BATCH}");
            return Err(Problem::bad_request(text));
        }
        if self.wait > MAX_WAIT {
            return Err(Problem::bad_request("wait: at most 60s"));
        }
        let lock_for = lock_span(self.lock_for)?;
        if self.is_fair {
            self.types.rotate_left(pull.turn() % count);
        }
        let demand = Demand {
            types: self.types,
            limit,
            lock_for,
            max_lock_expiries: None,
        };
        Ok(pull.claim(demand, self.wait).await?)
    }
}

/// A lock of the asked length, or as usual.
pub fn lock_span(asked: Option<Duration>) -> Result<Duration, Problem> {
    let lock_for = asked.unwrap_or(LOCK);
    if LOCKS.contains(&lock_for) {
        return Ok(lock_for);
    }
    Err(Problem::bad_request("lock_for: use 1s to 24h"))
}
