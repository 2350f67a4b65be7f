//! Retries of failed attempts.

use std::time::Duration;

use crate::time::MAX_DELAY;

/// The growth of the wait from one attempt to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backoff {
    /// The same wait each time.
    Fixed,
    /// Doubles the wait each time.
    Exponential,
}

/// How often a failed attempt is repeated, and after which wait.
///
/// The default: 5 attempts, waits of 1 s, 2 s, 4 s, 8 s, each shortened or lengthened by up to 10
/// %.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetryPolicy {
    /// Attempts in all, including the first; 1 means no retry, 0 is treated as 1.
    pub max_attempts: u32,
    /// The growth of the wait.
    pub backoff: Backoff,
    /// The wait before the second attempt.
    pub base: Duration,
    /// The longest wait, not counting jitter.
    pub cap: Duration,
    /// Random part of each wait, in percent: 10 makes it 90 % to 110 %. At most 100.
    ///
    /// Jitter keeps tasks that failed together from retrying together.
    pub jitter_percent: u8,
}

impl RetryPolicy {
    /// 5 attempts, exponential from 1 s up to 10 minutes, jitter 10 %.
    pub const DEFAULT: Self = Self {
        max_attempts: 5,
        backoff: Backoff::Exponential,
        base: Duration::from_secs(1),
        cap: Duration::from_mins(10),
        jitter_percent: 10,
    };

    /// One attempt, no retry.
    pub const NEVER: Self = Self {
        max_attempts: 1,
        ..Self::DEFAULT
    };

    /// The wait after attempt `attempt` (1-based) has failed, or `None` if it was the last one.
    #[must_use]
    pub fn wait_after(&self, attempt: u32) -> Option<Duration> {
        (attempt < self.max_attempts).then(|| self.jittered(self.wait(attempt)))
    }

    /// The wait without its random part.
    fn wait(&self, attempt: u32) -> Duration {
        let doublings = match self.backoff {
            Backoff::Fixed => 0,
            Backoff::Exponential => attempt.saturating_sub(1),
        };
        let factor = 1_u32.checked_shl(doublings).unwrap_or(u32::MAX);
        self.base
            .saturating_mul(factor)
            .min(self.cap)
            .min(MAX_DELAY)
    }

    fn jittered(&self, wait: Duration) -> Duration {
        let span = f64::from(self.jitter_percent.min(100)) / 100.0;
        if span == 0.0 {
            return wait;
        }
        wait.mul_f64(1.0 + span * (2.0 * fastrand::f64() - 1.0))
    }
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self::DEFAULT
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::seconds;

    const EXACT: RetryPolicy = RetryPolicy {
        jitter_percent: 0,
        ..RetryPolicy::DEFAULT
    };

    #[test]
    fn exponential_waits_double_up_to_the_cap_and_end_with_the_last_attempt() {
        let policy = RetryPolicy {
            cap: seconds(5),
            ..EXACT
        };
        let waits: Vec<_> = (1..=5).map(|attempt| policy.wait_after(attempt)).collect();
        assert_eq!(
            waits,
            [
                Some(seconds(1)),
                Some(seconds(2)),
                Some(seconds(4)),
                Some(seconds(5)),
                None
            ]
        );
    }

    #[test]
    fn a_huge_attempt_does_not_overflow() {
        let policy = RetryPolicy {
            max_attempts: u32::MAX,
            ..EXACT
        };
        assert_eq!(policy.wait_after(u32::MAX - 1), Some(policy.cap));
        let endless = RetryPolicy {
            base: Duration::MAX,
            cap: Duration::MAX,
            ..policy
        };
        assert_eq!(endless.wait_after(99), Some(MAX_DELAY));
    }

    #[test]
    fn jitter_stays_within_its_percentage() {
        let policy = RetryPolicy {
            backoff: Backoff::Fixed,
            base: seconds(100),
            ..RetryPolicy::DEFAULT
        };
        for _ in 0..1_000 {
            let wait = policy.wait_after(1).unwrap();
            assert!((seconds(90)..=seconds(110)).contains(&wait), "{wait:?}");
        }
    }
}
