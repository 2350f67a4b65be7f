//! A clock for tests.

use std::time::Duration;

use tokio::sync::watch;

use super::{Clock, Sleep, Timestamp};

/// A clock that stands still until a test moves it. Clones share the time.
#[derive(Clone, Debug)]
pub struct VirtualClock {
    times: watch::Sender<Times>,
}

#[derive(Clone, Copy, Debug)]
struct Times {
    now: Timestamp,
    elapsed: Duration,
}

impl VirtualClock {
    /// A clock that shows `start`.
    #[must_use]
    pub fn new(start: Timestamp) -> Self {
        Self {
            times: watch::Sender::new(Times {
                now: start,
                elapsed: Duration::ZERO,
            }),
        }
    }

    /// Lets `span` pass, and wakes the sleeps that have ended by then.
    pub fn advance(&self, span: Duration) {
        self.times.send_modify(|times| {
            times.now = times.now.plus(span);
            times.elapsed = times.elapsed.saturating_add(span);
        });
    }

    /// Sets the time of day without any time passing, as an operator or NTP does to a real clock.
    pub fn set(&self, time: Timestamp) {
        self.times.send_modify(|times| times.now = time);
    }
}

impl Default for VirtualClock {
    /// A clock that shows 2026-01-01T00:00:00Z.
    fn default() -> Self {
        Self::new(Timestamp::from_millis(1_767_225_600_000))
    }
}

impl Clock for VirtualClock {
    fn now(&self) -> Timestamp {
        self.times.borrow().now
    }

    fn elapsed(&self) -> Duration {
        self.times.borrow().elapsed
    }

    fn sleep_until(&self, elapsed: Duration) -> Sleep {
        let mut times = self.times.subscribe();
        // Once every clone of the clock is gone, no more time can pass.
        Box::pin(async move {
            if times
                .wait_for(|times| times.elapsed >= elapsed)
                .await
                .is_err()
            {
                std::future::pending::<()>().await;
            }
        })
    }
}
