//! The end of a world: all faults are over, and everything that was accepted has to end.

use super::call::{End, Kind};
use super::row::{Ms, NEVER, State, TASKS};
use super::step::{Net, Step};
use super::world::{HANDLERS, STRAYS, World};

/// More rounds than any task has attempts and waits.
const ROUNDS: usize = 64;

impl World {
    /// Mends everything, lets the handlers work until nothing is left, and judges what came of it.
    pub(super) fn recover(&mut self) {
        self.heal();
        for _ in 0..ROUNDS {
            for handler in 0..self.setup.handlers {
                self.work(handler);
            }
            if self.violation().is_some() || !self.wait_for_the_next() {
                break;
            }
        }
        for id in 0..TASKS {
            let row = self.store.rows[id];
            self.judge
                .finished(u8::try_from(id).unwrap_or(u8::MAX), &row);
        }
    }

    fn heal(&mut self) {
        self.take(Step::SetStoreClock { ahead: 0 });
        self.store.paused_until = 0;
        for handler in 0..u8::try_from(HANDLERS).unwrap_or(u8::MAX) {
            self.take(Step::SetCallerClock { handler, ahead: 0 });
            self.take(Step::Restart { handler });
            self.take(Step::Continue { handler });
            self.drop_calls(handler);
        }
        for place in 0..u8::try_from(STRAYS).unwrap_or(u8::MAX) {
            self.take(Step::Stray { place });
        }
    }

    /// One handler does all that it can; its workers succeed at once.
    fn work(&mut self, handler: u8) {
        let now = self.now;
        self.handler(handler).claim_at = now;
        self.handler(handler).settle_at = now;
        let net = Net::Good;
        for kind in [Kind::Settle, Kind::Claim, Kind::Settle] {
            self.take(Step::Call { handler, kind, net });
            for place in 0..u8::try_from(TASKS).unwrap_or(u8::MAX) {
                let end = End::Done;
                self.take(Step::Finish {
                    handler,
                    place,
                    end,
                });
            }
        }
        let kind = Kind::Settle;
        self.take(Step::Call { handler, kind, net });
    }

    /// Waits for the next due time or end of a lock; `false` when there is none.
    fn wait_for_the_next(&mut self) -> bool {
        let live = |state| matches!(state, State::Scheduled | State::Running);
        let rows = self.store.rows.iter().filter(|row| live(row.state));
        let next = rows.map(|row| row.due.min(row.lock_until)).min();
        let next: Ms = next.unwrap_or(NEVER);
        if next == NEVER {
            return false;
        }
        self.now = (self.now + 1).max(next - self.store_ahead);
        true
    }
}
