//! Rate limit for log lines of one kind, so that a flood from one fault leaves the log readable.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Number of lines of one kind in each window.
const LINES: u32 = 5;

/// The window in which [`LINES`] are counted.
const WINDOW: Duration = Duration::from_secs(1);

/// The limit of one kind of line: at most 5 a second, and a count of those left out.
///
/// ```
/// use delayq_core::log_limit::LogLimit;
///
/// static DAMAGED: LogLimit = LogLimit::new();
///
/// if let Some(left_out) = DAMAGED.admit() {
///     tracing::error!(left_out, "a stored task is damaged");
/// }
/// ```
#[derive(Debug, Default)]
pub struct LogLimit {
    state: Mutex<LimitState>,
}

#[derive(Debug, Default)]
struct LimitState {
    window_started: Option<Instant>,
    lines: u32,
    left_out: u64,
}

impl LogLimit {
    /// A limit without any lines counted.
    #[must_use]
    pub const fn new() -> Self {
        let state = LimitState {
            window_started: None,
            lines: 0,
            left_out: 0,
        };
        Self {
            state: Mutex::new(state),
        }
    }

    /// Asks for permission to log a line. `Some` allows it, with the number of lines left out since
    /// the last one; `None` counts this one as left out.
    pub fn admit(&self) -> Option<u64> {
        self.admit_at(Instant::now())
    }

    /// The number of lines left out, once a second has passed without a line. A caller that logs it
    /// from time to time also reports the end of a flood. Each line left out is counted once.
    pub fn rest(&self) -> Option<u64> {
        self.rest_at(Instant::now())
    }

    fn admit_at(&self, now: Instant) -> Option<u64> {
        let mut state = self.lock();
        if !state.is_in_window(now) {
            state.window_started = Some(now);
            state.lines = 0;
        }
        if state.lines >= LINES {
            state.left_out = state.left_out.saturating_add(1);
            return None;
        }
        state.lines += 1;
        Some(std::mem::take(&mut state.left_out))
    }

    fn rest_at(&self, now: Instant) -> Option<u64> {
        let mut state = self.lock();
        let is_over = state.left_out > 0 && !state.is_in_window(now);
        is_over.then(|| std::mem::take(&mut state.left_out))
    }

    fn lock(&self) -> MutexGuard<'_, LimitState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl LimitState {
    fn is_in_window(&self, now: Instant) -> bool {
        let started = self.window_started;
        started.is_some_and(|started| now.saturating_duration_since(started) < WINDOW)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_leaves_five_lines_a_second_and_the_count_of_the_rest() {
        let (limit, start) = (LogLimit::new(), Instant::now());
        let admitted = (0..100_000).filter_map(|_| limit.admit_at(start)).count();
        assert_eq!(admitted, 5);
        assert_eq!(limit.rest_at(start), None, "the flood may go on");
        let later = start + WINDOW;
        assert_eq!(limit.admit_at(later), Some(99_995));
        assert_eq!(limit.admit_at(later), Some(0));
    }

    #[test]
    fn the_end_of_a_flood_is_counted_once() {
        let (limit, start) = (LogLimit::new(), Instant::now());
        assert_eq!((0..7).filter_map(|_| limit.admit_at(start)).count(), 5);
        assert_eq!(limit.rest_at(start + WINDOW), Some(2));
        assert_eq!(limit.rest_at(start + WINDOW), None);
    }
}
