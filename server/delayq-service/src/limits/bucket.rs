//! A token bucket.

use std::time::Duration;

use tokio::time::Instant;

/// Limits bursts and requests a second. Its capacity is one second's worth, at least one request.
#[derive(Clone, Copy, Debug)]
pub struct TokenBucket {
    /// Requests a second.
    rate: f64,
    capacity: f64,
    /// The level at the time `at`.
    level: f64,
    at: Instant,
}

/// The state of a bucket.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reading {
    /// Requests left.
    pub remaining: f64,
    /// The time until it is full.
    pub full_in: Duration,
}

impl TokenBucket {
    /// A full bucket of `rate` requests a second.
    pub fn a_second(rate: u32, now: Instant) -> Self {
        let rate = f64::from(rate);
        Self::new(rate, rate.max(1.0), now)
    }

    /// A full bucket.
    pub fn new(rate: f64, capacity: f64, now: Instant) -> Self {
        Self {
            rate,
            capacity,
            level: capacity,
            at: now,
        }
    }

    /// Changes the rate from now on; the rate of a token can change at run time.
    pub fn set_rate(&mut self, rate: u32, now: Instant) {
        let rate = f64::from(rate);
        if (rate - self.rate).abs() > f64::EPSILON {
            let level = self.level(now);
            *self = Self::a_second(0, now);
            self.rate = rate;
            self.capacity = rate.max(1.0);
            self.level = level.min(self.capacity);
        }
    }

    fn level(&self, now: Instant) -> f64 {
        let elapsed = now.saturating_duration_since(self.at).as_secs_f64();
        (self.level + elapsed * self.rate).min(self.capacity)
    }

    /// The time until it holds `cost`, or until it is full if `cost` exceeds its capacity.
    pub fn wait(&self, cost: u32, now: Instant) -> Duration {
        let missing = f64::from(cost).min(self.capacity) - self.level(now);
        if missing <= 1e-9 {
            return Duration::ZERO;
        }
        Duration::try_from_secs_f64(missing / self.rate).unwrap_or(Duration::MAX)
    }

    /// Takes `cost`. The level may become negative.
    pub fn take(&mut self, cost: u32, now: Instant) {
        self.level = self.level(now) - f64::from(cost);
        self.at = now;
    }

    pub fn give_back(&mut self, cost: u32, now: Instant) {
        self.level = (self.level(now) + f64::from(cost)).min(self.capacity);
        self.at = now;
    }

    pub fn is_full(&self, now: Instant) -> bool {
        self.level(now) >= self.capacity
    }

    pub fn reading(&self, now: Instant) -> Reading {
        let remaining = self.level(now);
        let missing = (self.capacity - remaining) / self.rate;
        Reading {
            remaining: remaining.max(0.0),
            full_in: Duration::try_from_secs_f64(missing.max(0.0)).unwrap_or(Duration::MAX),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_gives_its_rate_and_no_more_than_a_second_at_once() {
        let start = Instant::now();
        let mut bucket = TokenBucket::a_second(10, start);
        let mut granted = 0;
        for ms in 0..2_000 {
            let now = start + Duration::from_millis(ms);
            if bucket.wait(1, now).is_zero() {
                bucket.take(1, now);
                granted += 1;
            }
        }
        assert!((29..=30).contains(&granted), "{granted}");
    }

    #[test]
    fn a_large_cost_is_granted_when_full_and_paid_afterwards() {
        let start = Instant::now();
        let mut bucket = TokenBucket::a_second(10, start);
        assert!(bucket.wait(30, start).is_zero());
        bucket.take(30, start);
        assert_eq!(bucket.wait(1, start), Duration::from_millis(2_100));
        let never = TokenBucket::a_second(0, start);
        assert!(
            never.wait(1, start).is_zero(),
            "a rate of 0 has one request"
        );
    }
}
