//! The judge: follows every edge, and says which promise it breaks.

use super::call::{Answer, Call, End, Item};
use super::row::{Ms, Row, State, TASKS};
use super::store::{GUARD, LOCK, Op, OpAnswer, RETENTION};
use super::tally::{Branch, Excuse, Tally};
use super::truth::{Granted, Place, Seen, Truth};
use super::violation::Violation;
use crate::check::Promise;

/// When an edge happens.
#[derive(Clone, Copy, Debug)]
pub(super) struct Moment {
    /// On the true clock.
    pub(super) now: Ms,
    /// On the store's clock.
    pub(super) store: Ms,
    /// Grows when the store's clock jumps ahead and when the store loses writes: both take locks away
    /// before their holders can know.
    pub(super) epoch: u32,
}

/// Why a lock expired, as far as its holder goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Faith {
    /// A fault kept the holder from extending it.
    Faulted,
    /// No fault touched the holder.
    Untouched,
    /// The holder still counts on it.
    Believed,
}

/// Who claimed, and when.
#[derive(Clone, Copy, Debug)]
pub(super) struct Claimer {
    pub(super) handler: u8,
    pub(super) caller_now: Ms,
    pub(super) moment: Moment,
}

/// Judges one world.
#[derive(Clone, Debug)]
pub(super) struct Judge {
    pub(super) truths: [Truth; TASKS],
    pub(super) seen: [Seen; TASKS],
    pub(super) violation: Option<Violation>,
    pub(super) tally: Tally,
}

impl Judge {
    pub(super) fn new() -> Self {
        Self {
            truths: [Truth::UNKNOWN; TASKS],
            seen: [Seen::NOTHING; TASKS],
            violation: None,
            tally: Tally::default(),
        }
    }

    /// Forgets the world; the tally stays.
    pub(super) fn begin(&mut self) {
        self.truths = [Truth::UNKNOWN; TASKS];
        self.seen = [Seen::NOTHING; TASKS];
        self.violation = None;
    }

    /// The first violation counts: later ones follow from it.
    #[cold]
    pub(super) fn blame(&mut self, promise: Promise, task: u8, what: &'static str) {
        self.violation.get_or_insert(Violation {
            promise,
            task,
            what,
        });
    }

    pub(super) fn truth(&self, id: u8) -> &Truth {
        &self.truths[usize::from(id)]
    }

    /// I10, for one row after each edge.
    pub(super) fn structure(&mut self, id: u8, row: &Row) {
        if !row.is_sound() {
            self.blame(
                Promise::Structure,
                id,
                "its record and its indexes disagree",
            );
        }
    }

    pub(super) fn submitted(&mut self, id: u8, accepted: bool, due: Ms, moment: Moment) {
        let truth = &mut self.truths[usize::from(id)];
        let ended = matches!(truth.place, Place::Ended { .. });
        if ended && truth.forget_at <= moment.store {
            *truth = Truth::UNKNOWN;
            self.seen[usize::from(id)].begin_anew();
            self.tally.took(Branch::SubmitAfterForgotten);
        } else if ended {
            self.tally.took(Branch::SubmitRepeatedEnded);
        } else if !accepted {
            self.tally.took(Branch::SubmitRepeatedLive);
        }
        if accepted && truth.place == Place::Unknown {
            *truth = Truth::fresh(due);
        }
    }

    /// A claim found this lock expired.
    pub(super) fn lock_expired(&mut self, id: u8, faith: Faith, moment: Moment) {
        let truth = &mut self.truths[usize::from(id)];
        let Some(lock) = truth.lock.take() else {
            return;
        };
        truth.place = Place::Scheduled;
        truth.expiries += 1;
        truth.causes += 1;
        self.tally.took(Branch::LockTakenOver);
        if lock.until > moment.store {
            self.blame(Promise::OneHolder, id, "taken while its lock was good");
        } else if faith == Faith::Believed {
            self.blame(
                Promise::OneHolder,
                id,
                "taken while its holder counted on its lock",
            );
        } else if faith == Faith::Untouched {
            self.blame(
                Promise::ExplainedRepeats,
                id,
                "its lock expired without a fault",
            );
        }
    }

    pub(super) fn claimed(&mut self, item: &Item, after_expiry: bool, by: Claimer) {
        let id = item.id;
        let truth = &mut self.truths[usize::from(id)];
        match item.answer {
            Answer::Cancelled => {
                truth.end(true, by.moment.store + RETENTION);
                self.tally.took(Branch::CancelledAtExpiry);
            }
            Answer::Poison => {
                truth.die();
                self.tally.took(Branch::Poison);
            }
            Answer::Expired => {
                truth.end(false, by.moment.store + RETENTION);
                self.tally.took(Branch::Expired);
            }
            _ => self.given(item, after_expiry, by),
        }
    }

    fn given(&mut self, item: &Item, after_expiry: bool, by: Claimer) {
        let (id, store) = (item.id, by.moment.store);
        let truth = &mut self.truths[usize::from(id)];
        let early = !after_expiry && (truth.due > store || truth.due > by.caller_now + GUARD);
        let before = truth.place;
        let cancelled = truth.cancel_requested || before == Place::Ended { cancelled: true };
        truth.claims += 1;
        truth.place = Place::Running;
        truth.lock = Some(Granted {
            fence: item.fence,
            holder: by.handler,
            until: store + LOCK,
            at: by.moment.now,
            epoch: by.moment.epoch,
        });
        let uncaused = truth.claims > truth.causes + 1 || matches!(before, Place::Ended { .. });
        let miscounted = item.attempt != 1 + truth.failures + truth.expiries;
        if cancelled {
            self.blame(
                Promise::CancelIsFinal,
                id,
                "starts although it was cancelled",
            );
        } else if uncaused {
            self.blame(
                Promise::ExplainedRepeats,
                id,
                "starts again without a cause",
            );
        } else if early {
            self.blame(Promise::NeverEarly, id, "starts before it is due");
        } else if miscounted {
            self.blame(Promise::ExplainedRepeats, id, "its attempts are miscounted");
        }
        self.fence_given(item, by.moment);
    }

    fn fence_given(&mut self, item: &Item, moment: Moment) {
        let seen = &mut self.seen[usize::from(item.id)];
        let is_larger = item.fence > seen.max_fence;
        if is_larger {
            seen.max_fence = item.fence;
            return;
        }
        if seen.undone && moment.store * 1_000 <= seen.max_fence {
            seen.excused_fence = item.fence;
            self.tally.excused(Excuse::FenceTwice);
            return;
        }
        self.blame(
            Promise::OneHolder,
            item.id,
            "its fence is not larger than the one before",
        );
    }

    /// A worker starts. `epoch` is that of its claim.
    pub(super) fn started(&mut self, item: &Item, epoch: u32, once: bool, moment: Moment) {
        let id = usize::from(item.id);
        let (truth, seen) = (&self.truths[id], &mut self.seen[id]);
        let lock = truth.lock.filter(|lock| lock.fence == item.fence);
        let holds = lock.is_some_and(|lock| lock.until > moment.store);
        let twice = seen.started_fence == item.fence;
        seen.started_fence = item.fence;
        seen.starts += u8::from(item.fence > seen.earlier_fence);
        let again = once && seen.starts > 1 && !seen.undone;
        let excused = seen.excused_fence == item.fence;
        if twice && !excused {
            self.blame(Promise::ExplainedRepeats, item.id, "one claim starts twice");
        } else if again {
            self.blame(
                Promise::ExplainedRepeats,
                item.id,
                "at most once, and starts again",
            );
        } else if !once && !holds && epoch == moment.epoch {
            self.blame(
                Promise::OneHolder,
                item.id,
                "starts after its lock had run out",
            );
        }
    }

    pub(super) fn settled(&mut self, item: &Item, changed: bool, moment: Moment) {
        let truth = &mut self.truths[usize::from(item.id)];
        if !changed {
            self.tally.took(match item.answer {
                Answer::Settled => Branch::SettleRepeated,
                _ => Branch::SettleRefused,
            });
            return;
        }
        let lock = truth.lock.filter(|lock| lock.fence == item.fence);
        let Some(lock) = lock else {
            self.blame(Promise::OneEnd, item.id, "settled by a stale lock");
            return;
        };
        if lock.until <= moment.store {
            self.tally.took(Branch::SettledAfterExpiry);
        }
        let forget_at = moment.store + RETENTION;
        let branch = match item.end {
            End::Done => {
                truth.end(false, forget_at);
                Branch::Done
            }
            End::Dead => {
                truth.failures += 1;
                truth.die();
                Branch::Dead
            }
            End::Retry { .. } | End::Release { .. } if truth.cancel_requested => {
                truth.end(true, forget_at);
                Branch::CancelledAtSettle
            }
            End::Retry { after } => {
                truth.failures += 1;
                truth.put_back(moment.store + Ms::from(after));
                Branch::Retried
            }
            End::Release { after } => {
                truth.put_back(moment.store + Ms::from(after));
                Branch::Released
            }
        };
        self.tally.took(branch);
    }

    pub(super) fn extended(&mut self, item: &Item, moment: Moment) {
        if item.answer == Answer::LockLost {
            self.tally.took(Branch::ExtendRefused);
            return;
        }
        let truth = &mut self.truths[usize::from(item.id)];
        let Some(lock) = truth.lock.as_mut().filter(|lock| lock.fence == item.fence) else {
            self.blame(Promise::OneEnd, item.id, "extended by a stale lock");
            return;
        };
        lock.until = moment.store + LOCK;
        lock.at = moment.now;
        lock.epoch = moment.epoch;
        self.tally.took(match item.answer {
            Answer::CancelRequested => Branch::CancelSeenByExtend,
            _ => Branch::Extended,
        });
    }

    pub(super) fn operated(&mut self, id: u8, op: Op, answer: OpAnswer, moment: Moment) {
        let truth = &mut self.truths[usize::from(id)];
        if truth.forget_at <= moment.store {
            // The store has forgotten it now, and its clock may go back.
            truth.forget_at = 0;
        }
        match (op, answer) {
            (Op::Cancel, OpAnswer::Cancelled) => {
                let runs = truth.place == Place::Running;
                truth.end(true, moment.store + RETENTION);
                self.tally.took(Branch::Cancelled);
                if runs {
                    self.blame(
                        Promise::CancelIsFinal,
                        id,
                        "runs, and the answer was Cancelled",
                    );
                }
            }
            (Op::Cancel, OpAnswer::Running) => {
                truth.cancel_requested = true;
                self.tally.took(Branch::CancelRunning);
            }
            (Op::Reschedule { delay }, OpAnswer::Changed) => {
                truth.due = moment.store + Ms::from(delay);
                self.tally.took(Branch::Rescheduled);
            }
            (Op::Requeue, OpAnswer::Requeued) => {
                *truth = Truth::fresh(moment.store);
                self.seen[usize::from(id)].begin_anew();
                self.tally.took(Branch::Requeued);
            }
            (Op::Cancel, OpAnswer::NotFound) => self.tally.took(Branch::CancelUnknown),
            (Op::Cancel, _) => self.tally.took(Branch::CancelFinished),
            (Op::Reschedule { .. }, _) => self.tally.took(Branch::RescheduleRefused),
            (Op::Requeue, _) => {}
        }
    }

    /// The store lost its last writes, and is as it was then.
    pub(super) fn rolled_back(&mut self, then: &[Truth; TASKS]) {
        for (id, before) in then.iter().enumerate() {
            let after = self.truths[id];
            // That an end was forgotten is no news for anybody.
            let forgot = Truth {
                forget_at: after.forget_at,
                ..*before
            };
            if after == forgot {
                self.truths[id] = *before;
                continue;
            }
            self.seen[id].undone = true;
            self.truths[id] = *before;
            if before.place == Place::Unknown {
                self.tally.took(Branch::RollbackUndidSubmit);
            } else if after.is_over() && !before.is_over() {
                self.tally.took(Branch::RollbackUndidEnd);
            } else if after.claims > before.claims {
                self.tally.took(Branch::RollbackUndidClaim);
            }
        }
    }

    /// I2, I4 and I7, when nothing is left to do for anybody.
    pub(super) fn finished(&mut self, id: u8, row: &Row) {
        let (truth, seen) = (self.truth(id), &self.seen[usize::from(id)]);
        match truth.place {
            Place::Unknown if !seen.accepted => {}
            Place::Unknown if seen.undone => self.tally.excused(Excuse::LostInWindow),
            Place::Ended { .. } if !row.state.is_live() => {}
            Place::Ended { .. } => self.blame(Promise::OneEnd, id, "it has ended and lives on"),
            Place::Dead if row.state == State::Dead => {}
            Place::Scheduled | Place::Running if row.state.is_live() => {
                self.blame(Promise::ComesBack, id, "nobody starts it");
            }
            _ => self.blame(Promise::NeverLost, id, "accepted, not ended, and gone"),
        }
    }
}

impl Call {
    /// What a claim took, as the judge needs it.
    pub(super) fn claimer(&self, handler: u8, moment: Moment) -> Claimer {
        Claimer {
            handler,
            caller_now: self.caller_now,
            moment,
        }
    }
}
