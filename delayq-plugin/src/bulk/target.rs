//! The time that a bulk reschedule moves tasks to.

use delayq_core::{Timestamp, When, millis};

/// One time for all tasks of the call, so that a moved task is recognised when the walk meets it
/// again, and a repeated call with the same time finds it done.
#[derive(Clone, Copy, Debug)]
pub(super) struct Target {
    time: Timestamp,
    /// The latest time that is known to have passed on the store's clock.
    passed: Timestamp,
}

impl Target {
    /// A delay counts from `now`, the store's, and from the end of that millisecond.
    pub(super) fn new(when: When, now: Timestamp) -> Self {
        let time = match when {
            When::At(time) => time,
            When::After(delay) if delay.is_zero() => now,
            When::After(delay) => now.plus(delay).plus(millis(1)),
        };
        Self { time, passed: now }
    }

    pub(super) fn when(self) -> When {
        When::At(self.time)
    }

    /// Takes in when a moved task is due: now, where the time has passed.
    pub(super) fn moved_to(&mut self, due_at: Timestamp) {
        if due_at > self.time {
            self.passed = self.passed.max(due_at);
        }
    }

    /// Whether a task that is due at `at` stays: it has that time, or is due like the moved ones.
    pub(super) fn is_there(self, at: Timestamp) -> bool {
        at == self.time || (self.time <= self.passed && at <= self.passed)
    }
}
