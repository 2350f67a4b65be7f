//! A tube, as this server knows it.

use std::collections::BTreeMap;
use std::time::Duration;

use delayq_plugin::Cursor;
use tokio::time::Instant;

use super::lane::{Lane, tube_part};
use super::tube_name::TubeName;

/// When a lane is worth a claim.
#[derive(Debug, Default)]
pub(super) struct Outlook {
    /// Not before this; none: now.
    pub(super) not_before: Option<Instant>,
    /// Grows with each change of the lane that this server hears of, so that a claim that was on
    /// its way meanwhile does not hide it.
    pub(super) changes: u64,
    /// The number of its first ready job, as it was read last: a client that watches many tubes
    /// compares them all.
    pub(super) head: Option<u64>,
    /// When it was found empty first.
    pub(super) empty_since: Option<Instant>,
    /// The last dead job that was looked at for a move that was left behind.
    pub(super) mended: Option<Cursor>,
}

/// A pause, as the statistics show it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pause {
    pub(super) length: Duration,
    pub(super) until: Instant,
}

/// A tube: its lanes, and who refers to it here.
#[derive(Debug)]
pub(super) struct Tube {
    /// What stands for it in the types of its lanes.
    pub(super) part: String,
    pub(super) lanes: BTreeMap<Lane, Outlook>,
    pub(super) using: u64,
    pub(super) watching: u64,
    pub(super) waiting: u64,
    /// Since this server knows the tube.
    pub(super) jobs: u64,
    pub(super) deletes: u64,
    pub(super) pauses: u64,
    pub(super) pause: Option<Pause>,
    /// When a client asked for a job of it last.
    pub(super) asked_at: Option<Instant>,
}

impl Tube {
    pub(super) fn new(name: &TubeName) -> Self {
        Self {
            part: tube_part(name),
            lanes: BTreeMap::new(),
            using: 0,
            watching: 0,
            waiting: 0,
            jobs: 0,
            deletes: 0,
            pauses: 0,
            pause: None,
            asked_at: None,
        }
    }

    /// Whether a client of this server refers to it.
    pub(super) fn is_referred(&self) -> bool {
        self.using + self.watching > 0
    }

    /// The pause that is not over.
    pub(super) fn pause(&self) -> Option<Pause> {
        self.pause.filter(|pause| Instant::now() < pause.until)
    }

    /// The next lane that is less urgent than one that is not known, or else the last one.
    pub(super) fn shared_lane(&self, unknown: &Lane) -> Option<Lane> {
        let is_shared = |lane: &&Lane| lane.job.is_none();
        let mut behind = self.lanes.range::<Lane, _>(unknown..).map(|(lane, _)| lane);
        let next = behind.find(is_shared);
        let shared = next.or_else(|| self.lanes.keys().rfind(is_shared));
        shared.cloned()
    }

    /// A lane has something new, from `at` on.
    pub(super) fn changed(&mut self, lane: &Lane, at: Option<Instant>) {
        let outlook = self.lanes.entry(lane.clone()).or_default();
        outlook.changes += 1;
        outlook.head = None;
        outlook.empty_since = None;
        outlook.not_before = match (outlook.not_before, at) {
            (Some(before), Some(at)) => Some(before.min(at)),
            _ => None,
        };
    }

    /// This is the first ready job of a lane, which had seen `changes` before.
    pub(super) fn found_head(&mut self, lane: &Lane, changes: u64, head: u64) {
        if let Some(outlook) = self.lanes.get_mut(lane)
            && outlook.changes == changes
        {
            outlook.head = Some(head);
        }
    }

    /// Nothing is ready in a lane, which had seen `changes` before, until `next`.
    pub(super) fn found_nothing(&mut self, lane: &Lane, changes: u64, next: Instant) {
        if let Some(outlook) = self.lanes.get_mut(lane)
            && outlook.changes == changes
        {
            outlook.not_before = Some(next);
            outlook.head = None;
        }
    }
}
