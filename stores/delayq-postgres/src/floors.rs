//! Floors: where the scans of a claim begin.
//!
//! A transaction that anybody holds open keeps the dead rows of all later claims. A scan from the
//! beginning goes through them, thousands for each claim. One that begins where earlier claims left
//! nothing does not.

use std::time::{Duration, Instant};

use delayq_core::time::Timestamp;

/// How far below the present time the scans of a claim begin. Only a transaction that stays open
/// longer can commit a task below.
const SLACK_MS: i64 = 10_000;

/// How often a claim scans from the beginning.
const WHOLE: Duration = Duration::from_secs(1);

/// The same while such scans are slow and find nothing, which a transaction that is held open
/// causes: the dead rows of earlier claims stay.
const WHOLE_IF_SLOW: Duration = Duration::from_secs(10);

/// A scan for expired locks that takes longer than this is slow.
const SLOW_PROBE_US: i64 = 1_000;

/// Where the scans of one claim begin, in milliseconds.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Starts {
    pub(crate) due: i64,
    pub(crate) lock: i64,
}

/// What a claim saw of its bucket.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen {
    /// The time that due times were compared with.
    pub(crate) now: Timestamp,
    /// The due time of its last task, if it took as many as it may.
    pub(crate) last: Option<Timestamp>,
    pub(crate) next_lock: Option<Timestamp>,
    /// How long the scan for expired locks took, in microseconds.
    pub(crate) probe_us: i64,
}

/// Where the scans of a bucket begin: no task below is due, no lock below expires, as far as this
/// process knows.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Floors {
    due: i64,
    /// The first lock that a claim saw.
    lock: i64,
    whole_at: Option<Instant>,
    is_slow: bool,
}

impl Floors {
    /// The floors of a claim that begins now.
    pub(crate) fn next(&mut self) -> Starts {
        let every = if self.is_slow { WHOLE_IF_SLOW } else { WHOLE };
        if self.whole_at.is_none_or(|at| at.elapsed() >= every) {
            self.whole_at = Some(Instant::now());
            self.is_slow = false;
            return Starts::default();
        }
        Starts {
            due: self.due,
            lock: if self.is_slow { self.lock } else { 0 },
        }
    }

    /// A lock of this process may expire at this time.
    pub(crate) fn note_lock(&mut self, until: Timestamp) {
        self.lock = self.lock.min(until.as_millis());
    }

    /// Raises the floors after a claim.
    pub(crate) fn learn(&mut self, seen: Seen) {
        let now = seen.now.as_millis();
        let done = seen.last.map_or(now, Timestamp::as_millis);
        self.due = done.min(now) - SLACK_MS;
        self.is_slow |= seen.probe_us > SLOW_PROBE_US;
        self.lock = seen.next_lock.map_or(now, Timestamp::as_millis).max(now);
    }
}
