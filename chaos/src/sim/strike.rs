//! The faults that happen to a world at a time of their own.

use super::call::End;
use super::driver::{Driver, FAULT, OUTAGE_END, REVIVAL, STRAY, SUBMITTER, small};
use super::row::{Ms, NEVER, TASKS};
use super::step::Step;
use super::store::LOCK;
use super::tally::Fault;

/// The faults that happen to a world at a time.
const SUDDEN: [Fault; 12] = [
    Fault::HandlerCrashed,
    Fault::HandlerCrashed,
    Fault::SubmitterCrashed,
    Fault::PausedShorterThanLock,
    Fault::PausedLongerThanLock,
    Fault::StoreCrashed,
    Fault::StoreRolledBack,
    Fault::StoreUnreachable,
    Fault::StoreClockAhead,
    Fault::StoreClockBack,
    Fault::CallerClockAhead,
    Fault::CallerClockBehind,
];

impl Driver {
    pub(super) fn fault(&mut self) {
        let dice = self.rng.u32(..);
        self.faults_left -= 1;
        self.next[FAULT] = match self.faults_left {
            0 => NEVER,
            _ => self.world.now + Ms::from(dice >> 16 & 4_095),
        };
        let handlers = usize::from(self.world.setup.handlers);
        let index = (dice >> 8 & 0xff) as usize % handlers;
        let size = (dice >> 4 & 15) as usize;
        let fault = SUDDEN[self.rng.usize(..SUDDEN.len())];
        if self.strike(fault, index, size) {
            self.world.judge.tally.fired(fault);
        }
        for index in 0..handlers {
            self.plan(index);
        }
        self.plan_strays();
    }

    /// Whether the fault could happen.
    fn strike(&mut self, fault: Fault, index: usize, size: usize) -> bool {
        let (handler, wait) = (small(index), self.while_long());
        let ahead = [300, 700, 2_500, 3_600_000][size % 4];
        match fault {
            Fault::HandlerCrashed => {
                self.ends[index] = [NEVER; TASKS];
                self.next[REVIVAL + index] = self.world.now + wait;
                self.step(Step::Crash { handler })
            }
            Fault::PausedShorterThanLock | Fault::PausedLongerThanLock => {
                let longer = fault == Fault::PausedLongerThanLock;
                let least = if longer { LOCK + 1 } else { 0 };
                let stopped = self.step(Step::Stop { handler });
                if stopped {
                    let ms = least + wait % (LOCK / 2);
                    self.next[REVIVAL + index] = self.world.now + ms;
                }
                stopped
            }
            Fault::SubmitterCrashed => {
                let waits = |at: &&mut Ms| **at != NEVER;
                let mut submitters = self.next[SUBMITTER..STRAY].iter_mut();
                submitters.find(waits).map(|at| *at = NEVER).is_some()
            }
            Fault::StoreCrashed => self.step(Step::CrashStore { undo: 0 }),
            Fault::StoreRolledBack => {
                let undo = small(1 + size % 4);
                self.world.setup.keeps_past && self.step(Step::CrashStore { undo })
            }
            Fault::StoreUnreachable => {
                self.unreachable = true;
                self.next[OUTAGE_END] = self.world.now + wait + 1;
                true
            }
            Fault::StoreClockAhead => {
                let ahead = self.world.store_ahead + ahead;
                self.step(Step::SetStoreClock { ahead })
            }
            Fault::StoreClockBack => {
                let ahead = self.world.store_ahead - ahead;
                self.step(Step::SetStoreClock { ahead })
            }
            Fault::CallerClockAhead => self.step(Step::SetCallerClock { handler, ahead }),
            Fault::CallerClockBehind => {
                let ahead = -ahead;
                self.step(Step::SetCallerClock { handler, ahead })
            }
            _ => false,
        }
    }

    pub(super) fn how_it_ends(&mut self) -> End {
        let dice = self.rng.u32(..);
        let after = (dice >> 8 & 511) as u16;
        match dice & 31 {
            0..=2 => End::Retry { after },
            3 => End::Release { after },
            4 => End::Dead,
            _ => End::Done,
        }
    }

    pub(super) fn revive(&mut self, index: usize) {
        let handler = small(index);
        self.next[REVIVAL + index] = NEVER;
        self.step(Step::Restart { handler });
        self.step(Step::Continue { handler });
        self.plan(index);
    }

    /// Mostly shorter than a lock, sometimes longer.
    pub(super) fn while_long(&mut self) -> Ms {
        let dice = self.rng.u32(..);
        let ms = Ms::from(dice >> 4 & 1_023);
        match dice & 15 {
            0 => ms * 8,
            1..=3 => ms * 3,
            _ => ms / 2,
        }
    }
}
