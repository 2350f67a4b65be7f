//! A call to the store that may be under way, and the wait after one that failed.

use std::fmt;
use std::future::{Future, pending};
use std::pin::Pin;
use std::time::Duration;

/// First wait after a failed call; doubled each time.
const BACKOFF_BASE: Duration = Duration::from_millis(50);
/// Longest wait after a failed call: a store that is back is noticed within a second.
const BACKOFF_CAP: Duration = Duration::from_millis(800);

/// At most one call at a time, which survives that nobody awaits it for a while.
pub(crate) struct Call<T>(Option<Pin<Box<dyn Future<Output = T> + Send>>>);

impl<T> Call<T> {
    pub(crate) fn none() -> Self {
        Self(None)
    }

    pub(crate) fn start(&mut self, call: impl Future<Output = T> + Send + 'static) {
        self.0 = Some(Box::pin(call));
    }

    pub(crate) fn is_under_way(&self) -> bool {
        self.0.is_some()
    }

    /// The answer of the call under way; never completes when there is none.
    pub(crate) async fn answer(&mut self) -> T {
        let Some(call) = &mut self.0 else {
            return pending().await;
        };
        let answer = call.await;
        self.0 = None;
        answer
    }
}

impl<T> fmt::Debug for Call<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_under_way() {
            "under way"
        } else {
            "none"
        })
    }
}

/// Counts failures in a row and says how long to wait after each.
#[derive(Debug, Default)]
pub(crate) struct Backoff {
    failures: u32,
}

impl Backoff {
    pub(crate) fn reset(&mut self) {
        self.failures = 0;
    }

    /// The wait after one more failure: exponential, with 50 % jitter so that the instances of a fleet
    /// do not all come back in the same moment.
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
