//! A clock for simulations: tokio's time, which a paused runtime moves on whenever nothing else is
//! to be done.

use std::time::Duration;

use delayq_core::time::Sleep;
use delayq_core::{Clock, Timestamp};
use delayq_testing::VirtualClock;
use tokio::time::Instant;

/// Starts when it is made, within a runtime.
#[derive(Clone, Debug)]
pub struct PausedClock {
    began: Instant,
    start: Timestamp,
}

impl Default for PausedClock {
    fn default() -> Self {
        Self {
            began: Instant::now(),
            start: VirtualClock::default().now(),
        }
    }
}

impl Clock for PausedClock {
    fn now(&self) -> Timestamp {
        self.start.plus(self.began.elapsed())
    }

    fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }

    fn sleep_until(&self, elapsed: Duration) -> Sleep {
        match self.began.checked_add(elapsed) {
            Some(end) => Box::pin(tokio::time::sleep_until(end)),
            None => Box::pin(std::future::pending()),
        }
    }
}
