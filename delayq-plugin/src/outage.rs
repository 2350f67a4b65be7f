//! Outages of the store in the log: one line when an outage begins and one when it is over, however
//! many handlers meet it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use delayq_core::{Clock, Error};
use tracing::{debug, info, warn};

/// The outages of one process.
#[derive(Clone, Debug)]
pub(crate) struct OutageLog {
    clock: Arc<dyn Clock>,
    state: Arc<Mutex<OutageState>>,
}

/// The kind of an outage. Each kind has its own lines, so that one does not hide the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OutageKind {
    /// The store does not answer.
    Away,
    /// The store answers that it has no room.
    Full,
}

impl OutageKind {
    fn of(error: &Error) -> Self {
        match error {
            Error::Full { .. } => Self::Full,
            _ => Self::Away,
        }
    }
}

#[derive(Debug, Default)]
struct OutageState {
    away: Outage,
    full: Outage,
}

impl OutageState {
    fn outage(&mut self, kind: OutageKind) -> &mut Outage {
        match kind {
            OutageKind::Away => &mut self.away,
            OutageKind::Full => &mut self.full,
        }
    }
}

#[derive(Debug, Default)]
struct Outage {
    /// The number of callers whose last answer was such an error.
    failing: usize,
    /// `Clock::elapsed` when the first of them got it.
    since: Duration,
    /// The number of callers that have met the outage.
    met_by: usize,
}

impl OutageLog {
    pub(crate) fn new(clock: Arc<dyn Clock>) -> Self {
        let state = Arc::default();
        Self { clock, state }
    }

    /// A handle for one caller, which the log names by `who`.
    pub(crate) fn caller(&self, who: impl Into<String>) -> OutageCaller {
        OutageCaller {
            log: self.clone(),
            who: who.into(),
            failing: None,
        }
    }

    fn state(&self) -> MutexGuard<'_, OutageState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One caller got an answer again. Returns the outage if this caller was the last one failing.
    fn leave(&self, kind: OutageKind) -> Option<Outage> {
        let mut state = self.state();
        let outage = state.outage(kind);
        outage.failing = outage.failing.saturating_sub(1);
        (outage.failing == 0).then(|| std::mem::take(outage))
    }
}

/// One caller of the store.
#[derive(Debug)]
pub(crate) struct OutageCaller {
    log: OutageLog,
    who: String,
    failing: Option<OutageKind>,
}

impl OutageCaller {
    /// A call failed with a transient error.
    pub(crate) fn failed(&mut self, error: &Error) {
        let (who, kind) = (&self.who, OutageKind::of(error));
        if self.failing == Some(kind) {
            return debug!(who, %error, "the store still fails");
        }
        if let Some(before) = self.failing.replace(kind) {
            self.log.leave(before);
        }
        let mut state = self.log.state();
        let outage = state.outage(kind);
        outage.failing += 1;
        outage.met_by += 1;
        if outage.failing == 1 {
            outage.since = self.log.clock.elapsed();
            warn!(who, %error, "the store failed; trying again until it answers");
        } else {
            debug!(who, %error, "the store failed for another caller");
        }
    }

    /// A call was answered.
    pub(crate) fn answered(&mut self) {
        let Some(kind) = self.failing.take() else {
            return;
        };
        let who = &self.who;
        let Some(outage) = self.log.leave(kind) else {
            return debug!(who, "answered again");
        };
        let lasted = self.log.clock.elapsed().saturating_sub(outage.since);
        info!(
            who,
            ?lasted,
            met_by = outage.met_by,
            "the store answers again"
        );
    }
}

impl Drop for OutageCaller {
    /// A caller that is dropped counts as gone, not as answered.
    fn drop(&mut self) {
        if let Some(kind) = self.failing {
            self.log.leave(kind);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use delayq_core::{VirtualClock, seconds};

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
            callers[4].failed(&Error::full("redis", "no room"));
            callers[3].failed(&Error::full("redis", "no room"));
            callers.clear();
            let mut caller = log.caller("later");
            caller.failed(&Error::unavailable("redis", "gone"));
        });
        let text = String::from_utf8(lines.0.lock().unwrap().clone()).unwrap();
        let lines = |what: &str| text.lines().filter(|line| line.contains(what)).count();
        assert_eq!(
            lines(" WARN "),
            5,
            "two, one of each kind, and a later one: {text}"
        );
        assert_eq!(
            lines("answers again"),
            2,
            "a caller that goes says nothing: {text}"
        );
        let first: Vec<_> = text.lines().take(2).collect();
        assert!(first[0].contains("who=\"type.498\"") && first[0].contains("redis"));
        assert!(first[1].contains("lasted=7s met_by=499"), "{text}");
    }
}
