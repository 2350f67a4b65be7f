//! A brake on wake-ups without effect.

use std::time::Duration;

/// Number of fruitless claims in a row before the next ones are spaced out. Some are normal in a
/// fleet that races for each task.
const FREE: u32 = 16;
/// The time between woken claims after that. A flood then costs 100 claims a second, and delays a
/// task that is due at once by up to this time.
const SPACE: Duration = Duration::from_millis(10);

/// Number of woken claims in a row that took no task and found none that is due earlier.
///
/// Anybody who may write to the store's channel can send wake-ups at any rate, and a damaged
/// namespace does so, too.
#[derive(Debug, Default)]
pub(super) struct FruitlessWakes {
    in_a_row: u32,
    /// The due time of the next task, according to the last claim.
    due_at: Option<Duration>,
}

impl FruitlessWakes {
    /// Counts a claim.
    pub(super) fn count(&mut self, is_woken: bool, has_taken: bool, due_at: Option<Duration>) {
        let known = self.due_at.unwrap_or(Duration::MAX);
        // Two estimates of one time differ by network jitter.
        let is_earlier = due_at.is_some_and(|due_at| due_at.saturating_add(SPACE) < known);
        self.due_at = due_at;
        if has_taken || is_earlier {
            self.in_a_row = 0;
        } else if is_woken {
            self.in_a_row = self.in_a_row.saturating_add(1);
        }
    }

    /// The earliest time for a woken claim after the claim sent at `sent_at`.
    pub(super) fn next_after(&self, sent_at: Duration) -> Duration {
        if self.in_a_row < FREE {
            sent_at
        } else {
            sent_at.saturating_add(SPACE)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_flood_is_spaced_out_until_a_claim_bears_fruit() {
        let mut wakes = FruitlessWakes::default();
        for fruit in [(true, None), (false, Some(SECOND))] {
            for _ in 0..FREE {
                assert_eq!(wakes.next_after(SECOND), SECOND);
                wakes.count(true, false, None);
            }
            assert_eq!(wakes.next_after(SECOND), SECOND + SPACE);
            wakes.count(true, fruit.0, fruit.1);
        }
        assert_eq!(wakes.next_after(SECOND), SECOND);
    }

    #[test]
    fn a_later_due_time_is_no_fruit_and_a_poll_is_no_wake_up() {
        let mut wakes = FruitlessWakes::default();
        wakes.count(true, false, Some(SECOND));
        for _ in 0..100 {
            wakes.count(false, false, Some(SECOND));
        }
        assert_eq!(wakes.next_after(SECOND), SECOND);
        for _ in 0..FREE {
            wakes.count(true, false, Some(SECOND));
        }
        assert_eq!(wakes.next_after(SECOND), SECOND + SPACE);
    }
}
