//! What handlers say to the store, and what it answers.

use super::row::{Ms, TASKS};

/// The calls of a handler; at most one of each kind is under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Kind {
    Claim,
    Settle,
    Extend,
}

impl Kind {
    pub(super) const ALL: [Self; 3] = [Self::Claim, Self::Settle, Self::Extend];
}

/// How an attempt ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum End {
    Done,
    Retry { after: u16 },
    Release { after: u16 },
    Dead,
}

/// The store's answer for one task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Answer {
    None,
    /// Claimed: this attempt may start.
    Given,
    /// Ended by the claim: past its expiry.
    Expired,
    /// Ended by the claim: its lock had expired, and a cancel was asked for.
    Cancelled,
    /// Ended by the claim: its lock expired too often.
    Poison,
    Settled,
    Extended,
    CancelRequested,
    LockLost,
}

/// One task of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Item {
    pub(super) id: u8,
    /// The handler's place for it.
    pub(super) hold: u8,
    pub(super) attempt: u8,
    pub(super) end: End,
    pub(super) answer: Answer,
    pub(super) fence: i64,
}

impl Item {
    pub(super) const NONE: Self = Self {
        id: 0,
        hold: 0,
        attempt: 0,
        end: End::Done,
        answer: Answer::None,
        fence: 0,
    };
}

/// How far a call has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Phase {
    Idle,
    Sent,
    Answered,
}

/// A batch on its way to the store or back.
#[derive(Clone, Copy, Debug)]
pub(super) struct Call {
    pub(super) kind: Kind,
    pub(super) phase: Phase,
    pub(super) limit: u8,
    len: u8,
    /// Counts what takes locks away without an expiry: see the world.
    pub(super) epoch: u32,
    pub(super) sent_at: Ms,
    pub(super) caller_now: Ms,
    /// How long until another claim finds something.
    pub(super) next_in: Ms,
    items: [Item; TASKS],
}

impl Call {
    pub(super) fn new(kind: Kind) -> Self {
        Self {
            kind,
            phase: Phase::Idle,
            limit: 0,
            len: 0,
            epoch: 0,
            sent_at: 0,
            caller_now: 0,
            next_in: 0,
            items: [Item::NONE; TASKS],
        }
    }

    pub(super) fn push(&mut self, item: Item) {
        self.items[usize::from(self.len)] = item;
        self.len += 1;
    }

    pub(super) fn len(&self) -> u8 {
        self.len
    }

    pub(super) fn is_full(&self) -> bool {
        self.len >= self.limit
    }

    pub(super) fn items(&self) -> &[Item] {
        &self.items[..usize::from(self.len)]
    }

    pub(super) fn items_mut(&mut self) -> &mut [Item] {
        &mut self.items[..usize::from(self.len)]
    }
}

impl std::hash::Hash for Call {
    /// Without what earlier calls have left behind.
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.phase.hash(state);
        if self.phase != Phase::Idle {
            (self.kind, self.limit, self.epoch).hash(state);
            (self.sent_at, self.caller_now, self.next_in).hash(state);
            self.items().hash(state);
        }
    }
}
