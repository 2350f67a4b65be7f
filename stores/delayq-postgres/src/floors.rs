//! Floors: where the scans of a claim begin.
//!
//! A transaction that anybody holds open keeps the dead rows of all later claims. A scan from the
//! beginning goes through them, thousands for each claim. One that begins where earlier claims left
//! nothing does not.

use std::collections::BTreeMap;
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

/// A scan from the beginning that takes longer than this is no part of a claim.
const ENDLESS_US: i64 = 1_000_000;

/// A scan is slow if it takes longer than this, and the second number for each task that it finds.
const SLOW_US: i64 = 1_000;
const SLOW_TASK_US: i64 = 10;

/// The store's clock was set back if a claim reads a time so much earlier than another one did.
const SET_BACK_MS: i64 = 1_000;

/// The largest number of scans that are followed: those whose caller went away are not ended.
const MAX_SCANS: usize = 64;

/// Where the scans of one claim begin, in milliseconds.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Starts {
    number: u64,
    pub(crate) due: i64,
    pub(crate) lock: i64,
    is_whole: bool,
}

/// What a claim saw of its bucket.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen {
    /// The store's clock.
    pub(crate) store_now: Timestamp,
    /// Nothing that was due before is left. `None` if the claim did not look.
    pub(crate) cleared: Option<Timestamp>,
    /// Tasks that are due at that time or later may be left: it took as many as it may.
    pub(crate) is_full: bool,
    /// The first lock, if there is one.
    pub(crate) next_lock: Option<Timestamp>,
    pub(crate) taken: usize,
    /// How long its scans took, in microseconds.
    pub(crate) scan_us: i64,
}

/// Where the scans of a bucket begin: no task below is due, no lock below expires, as far as this
/// process knows.
#[derive(Clone, Debug, Default)]
pub(crate) struct Floors {
    /// What earlier claims left nothing below.
    due: i64,
    /// The slack below it.
    slack: i64,
    /// The first lock that a claim saw.
    lock: i64,
    /// The latest time that the store's clock showed.
    store_now: i64,
    /// The scans under way, each with the first lock that was made or moved meanwhile.
    scans: BTreeMap<u64, i64>,
    number: u64,
    whole_at: Option<Instant>,
    is_slow: bool,
    is_expensive: bool,
    /// A scan from the beginning takes longer than a call may.
    is_endless: bool,
}

impl Floors {
    /// The floors of a claim that begins now.
    pub(crate) fn next(&mut self) -> Starts {
        let is_whole = !self.is_endless && self.is_whole_due();
        if is_whole {
            self.whole_at = Some(Instant::now());
        }
        let mut starts = Starts {
            number: self.begin(),
            is_whole,
            ..Starts::default()
        };
        if !is_whole {
            starts.due = self.due - self.slack;
            starts.lock = if self.is_slow { self.lock } else { 0 };
        }
        starts
    }

    /// The scan that finds the floors beside the claims, if it is time for one: scans from the
    /// beginning take longer than a call may.
    pub(crate) fn sounding(&mut self) -> Option<Starts> {
        if !self.is_endless || !self.is_whole_due() {
            return None;
        }
        self.whole_at = Some(Instant::now());
        Some(Starts {
            number: self.begin(),
            is_whole: true,
            ..Starts::default()
        })
    }

    /// A lock of this process may expire at this time.
    pub(crate) fn note_lock(&mut self, until: Timestamp) {
        let until = until.as_millis();
        self.lock = self.lock.min(until);
        for first in self.scans.values_mut() {
            *first = until.min(*first);
        }
    }

    /// Raises the floors after a claim. While scans are slow, those of a backlog begin exactly
    /// where the last one ended.
    pub(crate) fn learn(&mut self, starts: Starts, seen: Seen) {
        let noted = self.scans.remove(&starts.number).unwrap_or(0);
        let now = seen.store_now.as_millis();
        if now + SET_BACK_MS < self.store_now {
            // Due times and locks of the time before are in the future.
            *self = Self {
                number: self.number,
                store_now: now,
                ..Self::default()
            };
            return;
        }
        self.store_now = self.store_now.max(now);
        let found = i64::try_from(seen.taken).unwrap_or(0) * SLOW_TASK_US;
        let is_slow = seen.scan_us > SLOW_US + found;
        if starts.is_whole {
            (self.is_slow, self.is_expensive) = (is_slow, seen.scan_us > EXPENSIVE_US + found);
            self.is_endless = seen.scan_us > ENDLESS_US + found;
        }
        self.is_slow |= is_slow;
        if let Some(cleared) = seen.cleared {
            self.due = cleared.as_millis().min(now);
            self.slack = match seen.is_full {
                _ if !self.is_slow => SLACK_MS,
                true => 0,
                false => SLACK_IF_SLOW_MS,
            };
        }
        let first = seen.next_lock.map_or(now, Timestamp::as_millis);
        self.lock = first.min(noted);
        // Claims beside this one have not seen its locks.
        for noted in self.scans.values_mut() {
            *noted = first.min(*noted);
        }
    }

    /// A scan has failed, because its time was over or for another reason.
    pub(crate) fn fail(&mut self, starts: Starts, is_late: bool) {
        self.scans.remove(&starts.number);
        if is_late && starts.is_whole {
            (self.is_slow, self.is_expensive, self.is_endless) = (true, true, true);
        }
        if starts.is_whole && self.is_endless {
            self.whole_at = None;
        }
    }

    fn is_whole_due(&self) -> bool {
        let every = if self.is_expensive {
            WHOLE_IF_EXPENSIVE
        } else {
            WHOLE
        };
        self.whole_at.is_none_or(|at| at.elapsed() >= every)
    }

    fn begin(&mut self) -> u64 {
        self.number += 1;
        if self.scans.len() >= MAX_SCANS {
            self.scans.pop_first();
        }
        self.scans.insert(self.number, i64::MAX);
        self.number
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(now: i64, last: Option<i64>, scan_us: i64) -> Seen {
        Seen {
            store_now: Timestamp::from_millis(now),
            cleared: Some(Timestamp::from_millis(last.unwrap_or(now))),
            is_full: last.is_some(),
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
        floors.learn(first, seen(100_000, None, 100));
        let next = floors.next();
        assert_eq!((next.due, next.lock), (90_000, 0));
        // Dead rows make the scans slow: of a backlog, they begin at its last task.
        floors.learn(next, seen(101_000, Some(50_000), 30_000));
        let next = floors.next();
        assert_eq!((next.due, next.lock), (50_000, 131_000));
        floors.note_lock(Timestamp::from_millis(102_000));
        let beside = floors.next();
        assert_eq!(beside.lock, 102_000);
        floors.learn(beside, seen(102_000, None, 100));
        assert_eq!(floors.next().due, 101_750);
    }

    #[test]
    fn a_lock_that_is_noted_during_a_claim_is_not_forgotten_by_it() {
        let mut floors = Floors::default();
        let first = floors.next();
        floors.learn(first, seen(100_000, None, 30_000));
        let (one, other) = (floors.next(), floors.next());
        let mut of_one = seen(100_010, None, 100);
        of_one.next_lock = Some(Timestamp::from_millis(100_200));
        floors.learn(one, of_one);
        floors.learn(other, seen(100_020, None, 100));
        assert_eq!(floors.next().lock, 100_200);
        let next = floors.next();
        floors.note_lock(Timestamp::from_millis(100_100));
        floors.learn(next, seen(100_030, None, 100));
        assert_eq!(floors.next().lock, 100_100);
    }

    #[test]
    fn a_clock_that_was_set_back_begins_anew() {
        let mut floors = Floors::default();
        let first = floors.next();
        floors.learn(first, seen(100_000, None, 30_000));
        let next = floors.next();
        floors.learn(next, seen(50_000, None, 100));
        let next = floors.next();
        assert_eq!((next.due, next.lock), (0, 0));
    }

    /// A scan from the beginning that takes longer than a call would fail again and again.
    #[test]
    fn after_a_claim_without_an_end_the_floors_are_found_beside_the_claims() {
        let mut floors = Floors::default();
        let first = floors.next();
        floors.fail(first, true);
        let beside = floors.sounding().unwrap();
        assert_eq!(beside.due, 0);
        assert!(floors.sounding().is_none());
        assert!(!floors.next().is_whole);
        floors.learn(beside, seen(100_000, Some(70_000), 9_000_000));
        let next = floors.next();
        assert_eq!((next.due, next.is_whole), (70_000, false));
    }
}
