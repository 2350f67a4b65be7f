//! What goes into and comes out of a claim.

use std::time::Duration;

use crate::fleet::FleetLimits;
use crate::name::TaskId;
use crate::task::ClaimedTask;
use crate::time::Timestamp;

/// What to claim.
#[derive(Clone, Debug)]
pub struct ClaimRequest {
    /// Most tasks to take; of each partition at most [`MAX_BATCH`](super::MAX_BATCH) are.
    pub limit: usize,
    /// How long the locks last.
    pub lock_for: Duration,
    /// The claimer's clock, see [`CLOCK_GUARD`](super::CLOCK_GUARD).
    pub caller_now: Timestamp,
    /// A task whose lock has expired this often is poison and goes to dead; 0 is read as 1.
    pub max_lock_expiries: u32,
    /// Limits over all claimers of the type. A claim starts at most as many tasks as they leave; what they
    /// hold back stays due.
    pub fleet: FleetLimits,
}

/// What a claim took, and when to call again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claimed {
    /// The time that due times were compared with: the store's now, held back by [`CLOCK_GUARD`](super::CLOCK_GUARD).
    pub now: Timestamp,
    /// The store's now; far after `now` when the two clocks disagree. Locks are measured on it.
    pub store_now: Timestamp,
    /// By how much the store's clock was past `store_now`, which is whole milliseconds. Zero if it does not say.
    pub past: Duration,
    /// The largest fence of the type given before this claim, 0 for none. It never becomes smaller, unless the
    /// store has lost data: it was emptied, or an older copy of it was restored.
    pub high_water: u64,
    /// The tasks, locked: first those whose lock had expired, then by due time and id.
    pub tasks: Vec<ClaimedTask>,
    /// Tasks that the claim ended instead of handing them out.
    pub ended: Vec<ClaimEnd>,
    /// How often a partition was asked and gave no answer that was heard. Each time it may have locked tasks that
    /// nobody has, until a later claim gives them back or their locks expire. Other partitions have answered.
    pub unheard: u32,
    /// The earliest time at which another claim can find something: the next due time, the next expiry
    /// of a lock (of anybody), or the end of a pause with an end. At or before `now` when more is due
    /// already; `None` when nothing is scheduled or running, or the pause has no end. What the limits of
    /// the fleet hold back counts from when the rate allows starts again; a place that becomes free is
    /// told by a wake-up.
    pub next_due: Option<Timestamp>,
    /// How long to let other instances go first once `next_due` has come, as they wait for it, too. Zero if nobody
    /// else does, or if the store does not know. It is a courtesy: a claim that comes earlier is as good.
    pub turn: Duration,
}

impl ClaimRequest {
    /// How many more tasks may run in the fleet, of which `running` do.
    pub(crate) fn free_places(&self, running: usize) -> usize {
        let most = self.fleet.concurrency.map(|most| most.max(1));
        let most = most.and_then(|most| usize::try_from(most).ok());
        most.map_or(usize::MAX, |most| most.saturating_sub(running))
    }
}

impl Claimed {
    /// How long after this claim another one can find something; `None` as of `next_due`.
    #[must_use]
    pub fn next_in(&self) -> Option<Duration> {
        let next_due = self.next_due?;
        Some(next_due.since(self.now).saturating_sub(self.past()))
    }

    /// When to call again if nobody wakes the caller: after `next_in`, and in its turn. More that is due already knows
    /// no turns.
    #[must_use]
    pub fn again_in(&self) -> Option<Duration> {
        let next_in = self.next_in()?;
        let turn = if next_in.is_zero() {
            Duration::ZERO
        } else {
            self.turn
        };
        Some(next_in.saturating_add(turn))
    }

    /// By how much the clock that due times are compared with was past `now`, as far as that is known.
    #[must_use]
    pub fn past(&self) -> Duration {
        if self.now == self.store_now {
            self.past
        } else {
            Duration::ZERO
        }
    }
}

/// What a claim knows at its end, of which it tells when to call again.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Outlook {
    /// What due times are compared with.
    pub(crate) now: Timestamp,
    /// The first due time.
    pub(crate) due: Option<Timestamp>,
    /// The first end of a lock.
    pub(crate) lock: Option<Timestamp>,
    /// No place is free in the fleet.
    pub(crate) is_full: bool,
    /// When the rate allows starts again, if it allows none now.
    pub(crate) again_at: Option<Timestamp>,
}

impl Outlook {
    /// Whether somebody has to be told once a place is free.
    pub(crate) fn is_held_back(&self) -> bool {
        self.is_full && self.due.is_some_and(|due| due <= self.now)
    }

    /// What [`Claimed::next_due`] is to say. Never a time at which nothing could be claimed anyway.
    pub(crate) fn next_call(&self) -> Option<Timestamp> {
        let due = self.due.filter(|_| !self.is_held_back());
        let next = due.into_iter().chain(self.lock).min()?;
        Some(self.again_at.map_or(next, |again_at| next.max(again_at)))
    }
}

/// A task that a claim ended instead of handing it out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimEnd {
    /// The task.
    pub id: TaskId,
    /// Why.
    pub cause: EndCause,
}

/// Why a claim ended a task instead of handing it out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum EndCause {
    /// Its expiry had passed: now expired.
    Expired,
    /// Its lock expired and a cancel was requested before: now cancelled.
    Cancelled,
    /// Its lock expired too often (it seems to kill its process): now dead.
    Poison,
    /// Its stored record is damaged: now dead.
    Corrupt,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_claim_comes_when_something_is_due_to_the_part_of_a_millisecond() {
        let at = Timestamp::from_millis;
        let mut claimed = Claimed {
            now: at(10),
            store_now: at(10),
            past: Duration::from_micros(700),
            high_water: 0,
            tasks: Vec::new(),
            ended: Vec::new(),
            unheard: 0,
            next_due: Some(at(12)),
            turn: Duration::ZERO,
        };
        assert_eq!(claimed.next_in(), Some(Duration::from_micros(1_300)));
        claimed.next_due = Some(at(10));
        assert_eq!(claimed.next_in(), Some(Duration::ZERO));
        // Due times are compared with the caller's clock, of which no parts are known.
        claimed.store_now = at(11);
        claimed.next_due = Some(at(12));
        assert_eq!(claimed.next_in(), Some(Duration::from_millis(2)));
        claimed.next_due = None;
        assert_eq!(claimed.next_in(), None);
    }
}
