//! Waits after failed calls to the store.

use std::time::Duration;

/// First wait after a failed call; doubled each time.
const BACKOFF_BASE: Duration = Duration::from_millis(50);
/// Longest wait after a failed call: the handler notices within a second that the store is back.
const BACKOFF_CAP: Duration = Duration::from_millis(800);

/// Number of failures in a row, and the wait after each.
#[derive(Debug, Default)]
pub(crate) struct Backoff {
    failures: u32,
}

impl Backoff {
    pub(crate) fn reset(&mut self) {
        self.failures = 0;
    }

    /// The wait after one more failure: exponential. Half of it is random, so that the instances of
    /// a fleet do not all come back in the same moment.
    pub(crate) fn next(&mut self) -> Duration {
        let factor = 1_u32.checked_shl(self.failures).unwrap_or(u32::MAX);
        self.failures = self.failures.saturating_add(1);
        let wait = BACKOFF_BASE.saturating_mul(factor).min(BACKOFF_CAP);
        wait.mul_f64(0.5 + fastrand::f64() / 2.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wait_doubles_up_to_its_cap_with_jitter_of_half_of_it_and_begins_again() {
        let mut backoff = Backoff::default();
        for _ in 0..2 {
            for n in 0..100 {
                let whole = BACKOFF_BASE.saturating_mul(1 << n.min(10)).min(BACKOFF_CAP);
                let wait = backoff.next();
                assert!(whole / 2 <= wait && wait <= whole, "{n}: {wait:?}");
            }
            backoff.reset();
        }
    }
}
