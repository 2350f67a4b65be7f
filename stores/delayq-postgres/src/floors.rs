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

/// The same while scans are slow: longer than a commit takes.
const SLACK_IF_SLOW_MS: i64 = 250;

/// How often a claim scans from the beginning.
const WHOLE: Duration = Duration::from_secs(1);

/// The same while such scans are expensive.
const WHOLE_IF_EXPENSIVE: Duration = Duration::from_secs(10);

/// A scan from the beginning that takes longer than this is expensive.
const EXPENSIVE_US: i64 = 20_000;

/// A scan is slow if it takes longer than this, and the second number for each task that it finds.
const SLOW_US: i64 = 1_000;
const SLOW_TASK_US: i64 = 10;

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
    pub(crate) taken: usize,
    /// How long its scans took, in microseconds.
    pub(crate) scan_us: i64,
}

/// Where the scans of a bucket begin: no task below is due, no lock below expires, as far as this
/// process knows.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Floors {
    /// What earlier claims left nothing below.
    due: i64,
    /// The slack below it.
    slack: i64,
    /// The first lock that a claim saw.
    lock: i64,
    whole_at: Option<Instant>,
    is_whole: bool,
    is_slow: bool,
    is_expensive: bool,
}

impl Floors {
    /// The floors of a claim that begins now.
    pub(crate) fn next(&mut self) -> Starts {
        let every = if self.is_expensive {
            WHOLE_IF_EXPENSIVE
        } else {
            WHOLE
        };
        self.is_whole = self.whole_at.is_none_or(|at| at.elapsed() >= every);
        if self.is_whole {
            self.whole_at = Some(Instant::now());
            return Starts::default();
        }
        Starts {
            due: self.due - self.slack,
            lock: if self.is_slow { self.lock } else { 0 },
        }
    }

    /// A lock of this process may expire at this time.
    pub(crate) fn note_lock(&mut self, until: Timestamp) {
        self.lock = self.lock.min(until.as_millis());
    }

    /// Raises the floors after a claim. While scans are slow, those of a backlog begin exactly
    /// where the last one ended.
    pub(crate) fn learn(&mut self, seen: Seen) {
        let now = seen.now.as_millis();
        let found = i64::try_from(seen.taken).unwrap_or(0) * SLOW_TASK_US;
        let is_slow = seen.scan_us > SLOW_US + found;
        if self.is_whole {
            (self.is_slow, self.is_expensive) = (is_slow, seen.scan_us > EXPENSIVE_US + found);
        }
        self.is_slow |= is_slow;
        self.due = seen.last.map_or(now, Timestamp::as_millis).min(now);
        self.slack = match seen.last {
            _ if !self.is_slow => SLACK_MS,
            Some(_) => 0,
            None => SLACK_IF_SLOW_MS,
        };
        self.lock = seen.next_lock.map_or(now, Timestamp::as_millis).max(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(now: i64, last: Option<i64>, scan_us: i64) -> Seen {
        Seen {
            now: Timestamp::from_millis(now),
            last: last.map(Timestamp::from_millis),
            next_lock: Some(Timestamp::from_millis(now + 30_000)),
            taken: 128,
            scan_us,
        }
    }

    #[test]
    fn scans_begin_at_the_beginning_and_then_where_claims_left_nothing() {
        let mut floors = Floors::default();
        let first = floors.next();
        assert_eq!((first.due, first.lock), (0, 0));
        floors.learn(seen(100_000, None, 100));
        let next = floors.next();
        assert_eq!((next.due, next.lock), (90_000, 0));
        // Dead rows make the scans slow: of a backlog, they begin at its last task.
        floors.learn(seen(101_000, Some(50_000), 30_000));
        let next = floors.next();
        assert_eq!((next.due, next.lock), (50_000, 131_000));
        floors.note_lock(Timestamp::from_millis(102_000));
        assert_eq!(floors.next().lock, 102_000);
        floors.learn(seen(102_000, None, 100));
        assert_eq!(floors.next().due, 101_750);
    }
}
