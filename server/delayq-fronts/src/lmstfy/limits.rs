//! Limits of tokens, and the requests of each token on this server.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use super::names::TokenKey;

/// The largest number of tokens counted. Those whose interval is over are dropped first.
const MAX_TOKENS: usize = 20_000;
/// The longest interval in seconds: a year, because the clock cannot represent every time.
const MAX_INTERVAL: u64 = 31_536_000;

/// The reads and writes that a token may make in an interval; 0 means no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Limit {
    pub(super) read: i64,
    pub(super) write: i64,
    /// In seconds.
    pub(super) interval: i64,
}

/// The kind of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    /// Takes jobs.
    Consume,
    /// Sends jobs.
    Produce,
}

impl Action {
    /// The name in answers and metrics.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Consume => "consume",
            Self::Produce => "produce",
        }
    }

    fn most(self, limit: Limit) -> i64 {
        match self {
            Self::Consume => limit.read,
            Self::Produce => limit.write,
        }
    }
}

/// An interval of one token.
#[derive(Debug)]
struct Interval {
    end: Instant,
    reads: i64,
    writes: i64,
}

impl Interval {
    fn count(&mut self, action: Action) -> &mut i64 {
        match action {
            Action::Consume => &mut self.reads,
            Action::Produce => &mut self.writes,
        }
    }
}

/// Request counts of tokens with a limit. Each server counts its own requests.
#[derive(Debug, Default)]
pub(super) struct Throttle(Mutex<HashMap<TokenKey, Interval>>);

impl Throttle {
    /// Counts a request; returns true if it is allowed.
    pub(super) fn count(&self, key: &TokenKey, limit: Limit, action: Action, now: Instant) -> bool {
        let most = action.most(limit);
        if most <= 0 {
            return true;
        }
        let mut intervals = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if intervals.len() >= MAX_TOKENS {
            intervals.retain(|_, interval| interval.end > now);
        }
        let seconds = u64::try_from(limit.interval).unwrap_or(1).min(MAX_INTERVAL);
        let fresh = || Interval {
            end: now + Duration::from_secs(seconds),
            reads: 0,
            writes: 0,
        };
        let interval = intervals.entry(key.clone()).or_insert_with(fresh);
        if interval.end <= now {
            *interval = fresh();
        }
        let count = interval.count(action);
        if *count >= most {
            return false;
        }
        *count += 1;
        true
    }

    /// Refunds a request that had no effect.
    pub(super) fn give_back(&self, key: &TokenKey, action: Action) {
        let mut intervals = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(interval) = intervals.get_mut(key) {
            let count = interval.count(action);
            *count = (*count - 1).max(0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_allows_so_many_and_what_came_to_nothing_is_given_back() {
        let (throttle, key) = (Throttle::default(), TokenKey::new("default", "n", "t"));
        let limit = Limit {
            read: 0,
            write: 2,
            interval: 3,
        };
        let start = Instant::now();
        let write = |now| throttle.count(&key, limit, Action::Produce, now);
        assert!(write(start) && write(start) && !write(start));
        throttle.give_back(&key, Action::Produce);
        assert!(write(start) && !write(start));
        assert!(write(start + Duration::from_secs(3)));
        assert!((0..9).all(|_| throttle.count(&key, limit, Action::Consume, start)));
    }
}
