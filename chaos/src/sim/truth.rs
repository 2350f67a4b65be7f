//! What is true of a task by the answers that the store gave, kept apart from what the store holds.

use super::row::{Ms, NEVER};

/// Where a task is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Place {
    Unknown,
    Scheduled,
    Running,
    Dead,
    Ended { cancelled: bool },
}

/// A lock that was given and not taken away.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Granted {
    pub(super) fence: i64,
    pub(super) holder: u8,
    /// On the store's clock.
    pub(super) until: Ms,
    /// On the true clock; moved by each extension.
    pub(super) at: Ms,
    pub(super) epoch: u32,
}

/// What a rollback of the store takes back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Truth {
    pub(super) place: Place,
    pub(super) due: Ms,
    pub(super) lock: Option<Granted>,
    pub(super) cancel_requested: bool,
    /// Locks given since the submit or the last requeue.
    pub(super) claims: u8,
    /// Reasons for another one: expired locks, retries, releases.
    pub(super) causes: u8,
    pub(super) failures: u8,
    pub(super) expiries: u8,
    pub(super) forget_at: Ms,
}

impl Truth {
    pub(super) const UNKNOWN: Self = Self {
        place: Place::Unknown,
        due: NEVER,
        lock: None,
        cancel_requested: false,
        claims: 0,
        causes: 0,
        failures: 0,
        expiries: 0,
        forget_at: NEVER,
    };

    /// Scheduled by a submit or a requeue: the counts begin anew.
    pub(super) fn fresh(due: Ms) -> Self {
        Self {
            place: Place::Scheduled,
            due,
            ..Self::UNKNOWN
        }
    }

    pub(super) fn is_over(&self) -> bool {
        matches!(self.place, Place::Dead | Place::Ended { .. })
    }

    pub(super) fn end(&mut self, cancelled: bool, forget_at: Ms) {
        self.place = Place::Ended { cancelled };
        self.lock = None;
        self.forget_at = forget_at;
    }

    pub(super) fn die(&mut self) {
        self.place = Place::Dead;
        self.lock = None;
        self.cancel_requested = false;
    }

    pub(super) fn put_back(&mut self, due: Ms) {
        self.place = Place::Scheduled;
        self.lock = None;
        self.due = due;
        self.causes += 1;
    }
}

/// What nobody forgets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Seen {
    /// The submitter has had its answer.
    pub(super) accepted: bool,
    pub(super) max_fence: i64,
    pub(super) started_fence: i64,
    /// A fence that was given twice for a reason outside of what is promised.
    pub(super) excused_fence: i64,
    /// Starts since the submit or the last requeue.
    pub(super) starts: u8,
    /// Fences up to this one belong to what was before that.
    pub(super) earlier_fence: i64,
    /// A rollback took back something of it.
    pub(super) undone: bool,
}

impl Seen {
    pub(super) const NOTHING: Self = Self {
        accepted: false,
        max_fence: 0,
        started_fence: 0,
        excused_fence: 0,
        starts: 0,
        earlier_fence: 0,
        undone: false,
    };
}

impl Seen {
    /// The id begins anew: starts by earlier locks may still come, and do not count.
    pub(super) fn begin_anew(&mut self) {
        self.starts = 0;
        self.earlier_fence = self.max_fence;
    }
}
