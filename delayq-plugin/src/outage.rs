//! Outages of the store, as the log tells them: one line when one begins and one when it is over,
//! however many handlers meet it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use delayq_core::{Clock, Error};
use tracing::{debug, info, warn};

/// The outages of one process.
#[derive(Clone, Debug)]
pub(crate) struct OutageLog {
    clock: Arc<dyn Clock>,
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    /// How many callers got an error as their last answer.
    failing: usize,
    /// `Clock::elapsed` when the first of them did.
    since: Duration,
    /// How many callers met the outage.
    met_by: usize,
}

impl OutageLog {
    pub(crate) fn new(clock: Arc<dyn Clock>) -> Self {
        let state = Arc::default();
        Self { clock, state }
    }

    /// The part of one caller, which `who` names in the log.
    pub(crate) fn caller(&self, who: impl Into<String>) -> OutageCaller {
        OutageCaller {
            log: self.clone(),
            who: who.into(),
            is_failing: false,
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn leave(&self) {
        let mut state = self.state();
        state.failing = state.failing.saturating_sub(1);
        if state.failing == 0 {
            let lasted = self.clock.elapsed().saturating_sub(state.since);
            let met_by = std::mem::take(&mut state.met_by);
            info!(?lasted, met_by, "the store answers again");
        }
    }
}

/// One caller of the store. When it goes, it is failing no more.
#[derive(Debug)]
pub(crate) struct OutageCaller {
    log: OutageLog,
    who: String,
    is_failing: bool,
}

impl OutageCaller {
    /// A call failed.
    pub(crate) fn failed(&mut self, error: &Error) {
        let who = &self.who;
        if self.is_failing {
            return debug!(who, %error, "the store still fails");
        }
        self.is_failing = true;
        let mut state = self.log.state();
        state.failing += 1;
        state.met_by += 1;
        if state.failing == 1 {
            state.since = self.log.clock.elapsed();
            warn!(who, %error, "the store failed; trying again until it answers");
        } else {
            debug!(who, %error, "the store failed for another caller");
        }
    }

    /// A call was answered.
    pub(crate) fn answered(&mut self) {
        if std::mem::take(&mut self.is_failing) {
            debug!(who = self.who, "answered again");
            self.log.leave();
        }
    }
}

impl Drop for OutageCaller {
    fn drop(&mut self) {
        self.answered();
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use delayq_core::{VirtualClock, seconds};

    use super::*;

    /// Collects what is logged.
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
    fn an_outage_is_one_line_at_its_begin_and_one_at_its_end_however_many_meet_it() {
        let lines = Lines::default();
        let writer = lines.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_ansi(false)
            .with_writer(move || writer.clone())
            .finish();
        let clock = VirtualClock::default();
        let log = OutageLog::new(Arc::new(clock.clone()));
        let callers = (0..500).map(|n| log.caller(format!("type.{n}")));
        let mut callers: Vec<_> = callers.collect();
        tracing::subscriber::with_default(subscriber, || {
            for _ in 0..2 {
                for caller in callers.iter_mut().take(499).rev() {
                    caller.failed(&Error::unavailable("redis", "gone"));
                    caller.failed(&Error::unavailable("redis", "gone"));
                }
                clock.advance(seconds(7));
                callers.iter_mut().skip(1).for_each(OutageCaller::answered);
                callers[0].answered();
            }
            callers[3].failed(&Error::unavailable("redis", "gone"));
            callers.clear();
        });
        let text = String::from_utf8(lines.0.lock().unwrap().clone()).unwrap();
        assert_eq!(text.lines().count(), 6, "{text}");
        let first: Vec<_> = text.lines().take(2).collect();
        assert!(first[0].contains("who=\"type.498\"") && first[0].contains("redis"));
        assert!(first[1].contains("lasted=7s met_by=499"), "{text}");
    }
}
