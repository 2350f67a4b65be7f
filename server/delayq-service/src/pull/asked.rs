//! A client's claim request.

use std::collections::BTreeSet;
use std::time::Duration;

use delayq_plugin::TaskType;
use delayq_plugin::store::MAX_BATCH;

use super::{Demand, Handover, MAX_WAIT, Pull};
use crate::problem::Problem;

/// The lock time of a claim that names none.
const LOCK: Duration = Duration::from_secs(30);
/// The allowed lock times.
const LOCKS: std::ops::RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_hours(24);
/// The largest number of types in one claim.
const MAX_TYPES: usize = 100;

/// A client's claim request.
#[derive(Clone, Debug)]
pub struct Asked {
    /// The types to claim from.
    pub types: Vec<TaskType>,
    /// The largest number of tasks; `None` means one.
    pub limit: Option<usize>,
    /// The time to wait for the first task.
    pub wait: Duration,
    /// The lock time; `None` means the default.
    pub lock_for: Option<Duration>,
    /// True if the types take turns at being asked first.
    pub is_fair: bool,
}

impl Asked {
    /// Claims tasks, now or within the wait. Dropping the future at any point releases what was
    /// claimed.
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

/// The requested lock time, or the default. Refuses a time outside the limits.
pub fn lock_span(asked: Option<Duration>) -> Result<Duration, Problem> {
    let lock_for = asked.unwrap_or(LOCK);
    if LOCKS.contains(&lock_for) {
        return Ok(lock_for);
    }
    Err(Problem::bad_request("lock_for: use 1s to 24h"))
}
