//! A job: its place, its history, and the client that has reserved it.

use std::collections::BTreeMap;
use std::fmt;

use delayq_plugin::store::Bucket;
use delayq_plugin::{AttemptHistory, Clock, Lock, SystemClock, TaskInfo, TaskState};
use tokio::time::Instant;

use super::tube::{Lane, TubeName};

/// The header of a job's time to run, in seconds.
pub(super) const TTR: &str = "ttr";
/// The header of the delay given with the put, in seconds; absent means 0.
pub(super) const DELAY: &str = "delay";
/// The header of the priority, if it differs from that of the lane.
pub(super) const PRI: &str = "pri";
/// The header of the job's history before a move to another lane.
pub(super) const PAST: &str = "past";
/// The header of the time of the put, in milliseconds since the epoch, for a job moved to another
/// lane.
pub(super) const PUT_AT: &str = "put-at";
/// The header of the type that a job was taken from when it was reserved by its number.
pub(super) const FROM: &str = "from";

/// A job that still exists.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) number: u64,
    pub(super) tube: TubeName,
    pub(super) lane: Lane,
    pub(super) info: TaskInfo,
}

impl Job {
    /// Returns true if the job waits for its time.
    pub(super) fn is_delayed(&self) -> bool {
        self.info.state == TaskState::Scheduled && self.info.at > SystemClock.now()
    }

    /// Returns true if a client holds the job, or has just released it into another lane.
    pub(super) fn is_reserved(&self) -> bool {
        self.info.state == TaskState::Running || is_moving(&self.info)
    }
}

/// Returns true if the job has left its lane and is not in the next one yet. It is dead for the
/// store, but no client has buried it.
pub(super) fn is_moving(task: &TaskInfo) -> bool {
    let error = task.history.last_error.as_deref();
    task.state == TaskState::Dead && error.is_some_and(|error| error.starts_with(MOVES))
}

/// The history of a job, and its latest priority and delay.
///
/// It is kept as the note of the job, or in a header after a move to another lane, so that every
/// server knows it. An earlier release keeps it after the error text of the last attempt.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Past {
    pub(super) pri: u32,
    /// In seconds.
    pub(super) delay: u32,
    /// In seconds.
    pub(super) ttr: u32,
    pub(super) reserves: u32,
    pub(super) timeouts: u32,
    pub(super) releases: u32,
    pub(super) buries: u32,
    pub(super) kicks: u32,
    /// The counts of the store that are already included in the counts above.
    pub(super) expiries: u32,
    pub(super) requeues: u32,
    pub(super) failures: u32,
}

/// The reason of an end: the time to run was over.
pub(super) const TIMED_OUT: &str = "its time to run was over";
/// The reason of an end: the client buried the job.
pub(super) const BURIED: &str = "buried by its client";
/// The reason of an end: the job moves to the lane of another priority.
pub(super) const MOVES: &str = "moves to another priority";

impl Past {
    /// The history of a job in a lane of priority `lane_pri`, from the data of the store.
    pub(super) fn of(
        lane_pri: u32,
        headers: &BTreeMap<String, String>,
        history: &AttemptHistory,
    ) -> Self {
        let number = |name: &str| headers.get(name).and_then(|text| text.parse().ok());
        let first = Self {
            pri: number(PRI).unwrap_or(lane_pri),
            delay: number(DELAY).unwrap_or(0),
            ttr: number(TTR).unwrap_or(60),
            ..Self::default()
        };
        let moved = headers.get(PAST).and_then(|text| Self::read(text));
        let ttr = first.ttr;
        let known = Self::last(history).or(moved).unwrap_or(first);
        // The store counts expired locks anew after a requeue.
        let requeues = history.requeues.saturating_sub(known.requeues);
        let counted = if requeues > 0 { 0 } else { known.expiries };
        let expiries = history.lock_expiries.saturating_sub(counted);
        Self {
            ttr,
            timeouts: known.timeouts + expiries,
            reserves: known.reserves + expiries,
            kicks: known.kicks + requeues,
            expiries: history.lock_expiries,
            requeues: history.requeues,
            failures: history.failures,
            ..known
        }
    }

    /// The latest history that was kept since the job came to its lane. An earlier release counts
    /// every end as a failure, so its text is the later one if a failure came after the note.
    fn last(history: &AttemptHistory) -> Option<Self> {
        let noted = history.note.as_deref().and_then(Self::read);
        let told = history.last_error.as_deref().and_then(Self::read);
        let is_later = noted.as_ref().is_some_and(|noted| {
            let is_requeued = history.requeues > noted.requeues;
            let counted = if is_requeued { 0 } else { noted.failures };
            history.failures > counted
        });
        if is_later {
            told.or(noted)
        } else {
            noted.or(told)
        }
    }

    /// The history of a job that was just claimed.
    pub(super) fn reserved(self) -> Self {
        let reserves = self.reserves + 1;
        Self { reserves, ..self }
    }

    /// The history for a copy of the job in another lane.
    pub(super) fn moved(self) -> Self {
        Self {
            expiries: 0,
            requeues: 0,
            failures: 0,
            ..self
        }
    }

    /// The history as the note of a settlement.
    pub(super) fn note(&self) -> String {
        self.after("beanstalkd")
    }

    /// The history after a word. The word of an earlier release is the reason of the end.
    pub(super) fn after(&self, word: &str) -> String {
        format!("{word}: {self}")
    }

    /// Parses the text that `after` writes; the text of an earlier release has no failures.
    fn read(text: &str) -> Option<Self> {
        let (_, figures) = text.split_once(": ")?;
        let mut numbers = figures.split(' ').map(|figure| {
            let (_, number) = figure.split_once('=')?;
            number.parse().ok()
        });
        let mut next = || numbers.next().flatten();
        Some(Self {
            pri: next()?,
            delay: next()?,
            ttr: 0,
            reserves: next()?,
            timeouts: next()?,
            releases: next()?,
            buries: next()?,
            kicks: next()?,
            expiries: next()?,
            requeues: next()?,
            failures: next().unwrap_or(0),
        })
    }
}

impl fmt::Display for Past {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            pri,
            delay,
            reserves,
            timeouts,
            releases,
            buries,
            kicks,
            expiries,
            requeues,
            failures,
            ttr: _,
        } = self;
        write!(
            f,
            "pri={pri} delay={delay} reserves={reserves} timeouts={timeouts} releases={releases} \
             buries={buries} kicks={kicks} expiries={expiries} requeues={requeues} \
             failures={failures}"
        )
    }
}

/// A job reserved by a client of this server.
#[derive(Clone, Debug)]
pub(super) struct Held {
    pub(super) number: u64,
    pub(super) tube: TubeName,
    pub(super) lane: Lane,
    /// The bucket that the job was claimed from.
    pub(super) bucket: Bucket,
    pub(super) lock: Lock,
    pub(super) past: Past,
    /// The end of its time to run.
    pub(super) deadline: Instant,
    /// The connection that reserved the job.
    pub(super) holder: u64,
}

/// A reserved job on the way to its client.
#[derive(Clone, Debug)]
pub(super) struct Reserved {
    pub(super) number: u64,
    pub(super) body: Vec<u8>,
}
