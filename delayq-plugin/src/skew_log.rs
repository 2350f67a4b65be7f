//! Log of clock skews: one line for each episode.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tracing::warn;

use crate::clock_skew::ClockSkew;

/// An episode is over when no skew has been seen for this long.
const CALM: Duration = Duration::from_mins(1);

/// The log of one process, for all its handlers and submit services.
#[derive(Debug, Default)]
pub(crate) struct SkewLog {
    /// `Clock::elapsed` when a skew was last seen.
    seen_at: Mutex<Option<Duration>>,
}

impl SkewLog {
    /// Records one comparison of the clocks.
    pub(crate) fn observe(&self, skew: Option<ClockSkew>, elapsed: Duration) {
        let Some(skew) = skew else { return };
        let mut seen_at = self.seen_at.lock().unwrap_or_else(PoisonError::into_inner);
        let is_new = seen_at.is_none_or(|at| elapsed >= at.saturating_add(CALM));
        *seen_at = Some(elapsed);
        if is_new {
            warn!(%skew, "clocks differ: delays count from the store's clock; set both by NTP");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::sync::Arc;

    use delayq_core::seconds;

    use super::*;

    /// Collects the log lines.
    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<Vec<u8>>>);

    impl Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_skew_is_logged_once_an_episode_however_many_see_it() {
        let lines = Lines::default();
        let writer = lines.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_writer(move || writer.clone())
            .finish();
        let log = SkewLog::default();
        let skew = Some(ClockSkew::StoreBehind(seconds(2)));
        tracing::subscriber::with_default(subscriber, || {
            log.observe(None, seconds(0));
            (1..50).for_each(|second| log.observe(skew, seconds(second)));
            log.observe(None, seconds(50));
            log.observe(skew, seconds(108));
            log.observe(skew, seconds(168));
        });
        let text = String::from_utf8(lines.0.lock().unwrap().clone()).unwrap();
        assert_eq!(text.lines().count(), 2, "{text}");
        assert!(text.contains("2s behind this host's"), "{text}");
    }
}
