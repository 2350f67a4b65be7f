//! The time of day in microseconds, from the kernel's clock that the stores of this machine read,
//! too. `SystemClock` has whole milliseconds, as all times of delayq, which is too coarse to tell 1
//! ms from 2.

use rustix::time::{ClockId, clock_gettime};

/// Microseconds since the Unix epoch.
pub(crate) fn now_us() -> i64 {
    let time = clock_gettime(ClockId::Realtime);
    time.tv_sec * 1_000_000 + time.tv_nsec / 1_000
}

#[cfg(test)]
mod tests {
    use delayq_plugin::{Clock, SystemClock};

    use super::*;

    #[test]
    fn it_is_the_clock_of_delayq_with_three_more_digits() {
        let before = SystemClock.now().as_millis();
        let now_us = now_us();
        let after = SystemClock.now().as_millis();
        // One of the two may be rounded to whole milliseconds in either direction.
        assert!((before - 1) * 1_000 <= now_us && now_us <= (after + 1) * 1_000);
    }
}
