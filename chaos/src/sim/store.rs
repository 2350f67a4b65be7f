//! The model's store: the edges as the `Store` contract documents them, one atomic step each.
//!
//! Left out: messages, the order among due tasks, and what only asks.

use super::bug::Bug;
use super::call::{Answer, Call, End, Item};
use super::row::{Ms, NEVER, Row, State, TASKS};

/// How long locks last.
pub(super) const LOCK: Ms = 3_000;
/// How far the store's clock may run ahead of a claimer's.
pub(super) const GUARD: Ms = 500;
/// How long ended tasks are remembered.
pub(super) const RETENTION: Ms = 600_000;
/// A task whose lock has expired this often is poison.
pub(super) const MAX_EXPIRIES: u8 = 3;

/// What an operator does to one task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Op {
    Cancel,
    Reschedule { delay: u16 },
    Requeue,
}

/// The answer to an operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OpAnswer {
    Cancelled,
    Changed,
    Requeued,
    Running,
    Finished,
    NotFound,
}

/// What a submit asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Ask {
    pub(super) delay: u16,
    /// After its due time.
    pub(super) expires_in: Option<u16>,
}

/// The tasks of one type.
#[derive(Clone, Copy, Debug, Hash)]
pub(super) struct Store {
    pub(super) rows: [Row; TASKS],
    pub(super) high_water: i64,
    pub(super) paused_until: Ms,
    /// The submit that only a planted bug leaves unstored.
    unstored: Option<u8>,
    bug: Option<Bug>,
}

impl Store {
    pub(super) fn new(bug: Option<Bug>) -> Self {
        Self {
            rows: [Row::ABSENT; TASKS],
            high_water: 0,
            paused_until: 0,
            unstored: None,
            bug,
        }
    }

    fn has(&self, bug: Bug) -> bool {
        self.bug == Some(bug)
    }

    fn row(&mut self, id: u8) -> &mut Row {
        &mut self.rows[usize::from(id)]
    }

    /// Whether the task was accepted; otherwise it exists already.
    pub(super) fn submit(&mut self, id: u8, ask: Ask, now: Ms) -> bool {
        let due = now + Ms::from(ask.delay);
        let (makes_entry, runs_again) = (
            self.has(Bug::RepeatedSubmitMakesEntry),
            self.has(Bug::RepeatedSubmitRunsAgain),
        );
        let row = self.row(id);
        if row.state.is_live() {
            if makes_entry && row.state == State::Scheduled {
                row.second = due;
            }
            return false;
        }
        if row.state.is_ended() && row.forget_at > now && !runs_again {
            return false;
        }
        *row = Row::ABSENT;
        row.schedule(due);
        row.expires_at = ask.expires_in.map_or(NEVER, |span| due + Ms::from(span));
        self.unstored = Some(id);
        true
    }

    /// Fills the call with what it takes; `false` while the type is paused.
    pub(super) fn claim(&mut self, call: &mut Call, now: Ms) -> bool {
        if self.paused_until > now {
            call.next_in = self.paused_until - now;
            return false;
        }
        let due_now = self.due_now(call.caller_now, now);
        for id in 0..self.rows.len() {
            let row = &self.rows[id];
            let expired = row.lock_until <= now && !self.has(Bug::ClaimIgnoresExpiredLocks);
            let taken = row.state == State::Running && self.has(Bug::ClaimTakesRunning);
            if (expired || taken) && !call.is_full() {
                self.expire_lock(id, call, now);
            }
        }
        for id in 0..self.rows.len() {
            let row = &self.rows[id];
            if row.state == State::Scheduled && row.due <= due_now && !call.is_full() {
                if row.expires_at <= due_now {
                    self.rows[id].end(State::Expired, now + RETENTION);
                    call.push(item(id, Answer::Expired));
                } else {
                    self.start(id, call, now);
                }
            }
        }
        let times = self.rows.iter().map(|row| row.due.min(row.lock_until));
        let next = times.min().unwrap_or(NEVER);
        call.next_in = if next == NEVER { NEVER } else { next - due_now };
        true
    }

    fn due_now(&self, caller_now: Ms, now: Ms) -> Ms {
        let guarded = now.min(caller_now + GUARD);
        match self.bug {
            Some(Bug::CallersClock) => caller_now,
            Some(Bug::NoGuard) => now,
            Some(Bug::WholeSeconds) => guarded / 1_000 * 1_000 + 999,
            _ => guarded,
        }
    }

    fn expire_lock(&mut self, id: usize, call: &mut Call, now: Ms) {
        let forgets_cancel = self.has(Bug::ExpiryForgetsCancel);
        let counts = !self.has(Bug::ExpiryNotCounted);
        let drops = self.has(Bug::ExpiryDropsTask);
        let row = &mut self.rows[id];
        row.expiries += u8::from(counts);
        if drops {
            row.end(State::Done, now + RETENTION);
        } else if row.cancel_requested && !forgets_cancel {
            row.end(State::Cancelled, now + RETENTION);
            call.push(item(id, Answer::Cancelled));
        } else if row.expiries >= MAX_EXPIRIES {
            row.die();
            call.push(item(id, Answer::Poison));
        } else {
            self.start(id, call, now);
        }
    }

    fn start(&mut self, id: usize, call: &mut Call, now: Ms) {
        self.high_water = self.next_fence(now);
        let fence = self.high_water;
        let removes = self.has(Bug::RemovedBeforeRun);
        let row = &mut self.rows[id];
        row.run(fence, now + LOCK);
        call.push(Item {
            attempt: row.attempt(),
            fence,
            ..item(id, Answer::Given)
        });
        if removes {
            *row = Row::ABSENT;
        }
    }

    fn next_fence(&self, now: Ms) -> i64 {
        let (time, count) = (now * 1_000, self.high_water + 1);
        match self.bug {
            Some(Bug::FenceFromCountOnly) => count,
            Some(Bug::FenceFromClockOnly) => time,
            _ => time.max(count),
        }
    }

    /// Answers for one lock, and whether anything changed.
    pub(super) fn settle(&mut self, item: &Item, now: Ms) -> (Answer, bool) {
        let bug = self.bug;
        let row = self.row(item.id);
        let fits = match bug {
            Some(Bug::SettleIgnoresFence) => true,
            Some(Bug::SettleAfterTakeover) => item.fence <= row.fence,
            _ => item.fence == row.fence,
        };
        if row.state != State::Running || !fits {
            if row.settled != item.fence {
                return (Answer::LockLost, false);
            }
            let again = bug == Some(Bug::RepeatedSettleEndsAgain) && row.state == State::Done;
            return (Answer::Settled, again);
        }
        row.settled = item.fence;
        let cancelled = row.cancel_requested && bug != Some(Bug::RetryForgetsCancel);
        match item.end {
            End::Done => row.end(State::Done, now + RETENTION),
            End::Retry { .. } | End::Release { .. } if cancelled => {
                row.end(State::Cancelled, now + RETENTION);
            }
            End::Retry { after } => {
                row.failures += 1;
                let at_once = bug == Some(Bug::RetryAtOnce);
                row.schedule(now + if at_once { 0 } else { Ms::from(after) });
            }
            End::Release { after } => {
                row.failures += u8::from(bug == Some(Bug::ReleaseCounted));
                row.schedule(now + Ms::from(after));
            }
            End::Dead => {
                row.failures += 1;
                row.die();
            }
        }
        (Answer::Settled, true)
    }

    pub(super) fn extend(&mut self, item: &Item, now: Ms) -> Answer {
        let ignores_fence = self.has(Bug::ExtendIgnoresFence);
        let row = self.row(item.id);
        if row.state != State::Running || !(row.fence == item.fence || ignores_fence) {
            return Answer::LockLost;
        }
        row.lock_until = now + LOCK;
        if row.cancel_requested {
            return Answer::CancelRequested;
        }
        Answer::Extended
    }

    pub(super) fn operate(&mut self, id: u8, op: Op, now: Ms) -> OpAnswer {
        let bug = self.bug;
        let row = self.row(id);
        if row.state.is_ended() && row.forget_at <= now {
            *row = Row::ABSENT;
        }
        match (op, row.state) {
            (Op::Cancel, _) if bug == Some(Bug::BlindCancel) => OpAnswer::Cancelled,
            (Op::Cancel, State::Running) if bug == Some(Bug::CancelRemovesRunning) => {
                row.end(State::Cancelled, now + RETENTION);
                OpAnswer::Cancelled
            }
            (_, State::Absent) => OpAnswer::NotFound,
            (Op::Cancel, State::Scheduled) => {
                row.end(State::Cancelled, now + RETENTION);
                OpAnswer::Cancelled
            }
            (Op::Cancel, State::Running) => {
                row.cancel_requested = true;
                OpAnswer::Running
            }
            (Op::Reschedule { delay }, State::Scheduled) => {
                if bug == Some(Bug::RescheduleLeavesEntry) {
                    row.second = row.due;
                }
                row.due = now + Ms::from(delay);
                OpAnswer::Changed
            }
            (Op::Requeue, State::Dead) => {
                requeue(row, now, bug);
                OpAnswer::Requeued
            }
            (_, State::Running) => OpAnswer::Running,
            _ => OpAnswer::Finished,
        }
    }

    /// The store's process dies and starts again. What it acknowledged is there, but for a bug.
    pub(super) fn restart(&mut self) {
        if let Some(id) = self.unstored.take()
            && self.has(Bug::AnswerBeforeStored)
        {
            *self.row(id) = Row::ABSENT;
        }
    }
}

fn requeue(row: &mut Row, now: Ms, bug: Option<Bug>) {
    if bug != Some(Bug::RequeueKeepsAttempts) {
        row.failures = 0;
        row.expiries = 0;
    }
    row.in_dead = bug == Some(Bug::RequeueLeavesDead);
    row.schedule(now);
}

fn item(id: usize, answer: Answer) -> Item {
    Item {
        id: u8::try_from(id).unwrap_or(u8::MAX),
        answer,
        ..Item::NONE
    }
}
