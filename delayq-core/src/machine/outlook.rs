//! Time of the next claim.

use std::time::Duration;

use crate::time::{Reading, Timestamp};

/// The state of a bucket at the end of a claim, from which the time of the next claim follows.
#[derive(Clone, Copy, Debug)]
pub struct Outlook {
    /// The store's clock.
    pub reading: Reading,
    /// The time that due times are compared with: the store's present time, limited by the guard.
    pub now: Timestamp,
    /// The first due time.
    pub due: Option<Timestamp>,
    /// The first expiry of a lock.
    pub lock: Option<Timestamp>,
    /// Every slot of the fleet's concurrency is taken.
    pub is_full: bool,
    /// The time when the fleet's rate allows starts again, if it allows none now.
    pub again_at: Option<Timestamp>,
}

impl Outlook {
    /// True if due tasks wait for a slot: the operation that frees one has to wake the handlers.
    #[must_use]
    pub fn is_held_back(&self) -> bool {
        self.is_full && self.due.is_some_and(|due| due <= self.now)
    }

    /// [`Claimed::next_in`](crate::store::Claimed::next_in): never a time at which nothing could be
    /// claimed.
    #[must_use]
    pub fn next_in(&self) -> Option<Duration> {
        let due = self.due.filter(|_| !self.is_held_back());
        let next = due.into_iter().chain(self.lock).min()?;
        let next = self.again_at.map_or(next, |again_at| next.max(again_at));
        Some(self.until(next))
    }

    /// The time until `time`, with fractions of a millisecond unless the guard limits the present
    /// time.
    #[must_use]
    pub fn until(&self, time: Timestamp) -> Duration {
        let wait = time.since(self.now);
        if self.now == self.reading.now {
            wait.saturating_sub(self.reading.sub_ms)
        } else {
            wait
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_claim_comes_when_something_is_due_to_the_part_of_a_millisecond() {
        let at = Timestamp::from_millis;
        let mut outlook = Outlook {
            reading: Reading {
                now: at(10),
                sub_ms: Duration::from_micros(700),
            },
            now: at(10),
            due: Some(at(12)),
            lock: None,
            is_full: false,
            again_at: None,
        };
        assert_eq!(outlook.next_in(), Some(Duration::from_micros(1_300)));
        outlook.due = Some(at(10));
        assert_eq!(outlook.next_in(), Some(Duration::ZERO));
        // Limited by the guard: the claimer's clock has no fractions of a millisecond.
        outlook.reading.now = at(11);
        outlook.due = Some(at(12));
        assert_eq!(outlook.next_in(), Some(Duration::from_millis(2)));
        outlook.due = None;
        assert_eq!(outlook.next_in(), None);
    }

    #[test]
    fn a_free_slot_is_waited_for_and_not_polled_for() {
        let at = Timestamp::from_millis;
        let outlook = Outlook {
            reading: at(10).into(),
            now: at(10),
            due: Some(at(5)),
            lock: Some(at(30)),
            is_full: true,
            again_at: None,
        };
        assert!(outlook.is_held_back());
        assert_eq!(outlook.next_in(), Some(Duration::from_millis(20)));
    }
}
