//! One world: a store, its handlers, the network between them, and the clocks.

use std::hash::{Hash, Hasher};

use super::bug::Bug;
use super::call::{Call, Phase};
use super::handler::{Handler, Rules};
use super::judge::{Judge, Moment};
use super::row::{Ms, TASKS};
use super::step::{Net, Step};
use super::store::{Ask, Op, Store};
use super::tally::Branch;
use super::truth::Truth;
use super::violation::Violation;

/// Most handlers of one world.
pub(super) const HANDLERS: usize = 3;
/// Most requests under way that nobody waits for.
pub(super) const STRAYS: usize = 3;
/// Most writes that a power loss undoes.
pub(super) const PAST: usize = 4;
/// When worlds begin: late enough for clocks to be set back by hours.
pub(super) const BEGIN: Ms = 100_000_000;
/// How long a store's restart takes.
const RESTART: Ms = 100;

/// What kind of world.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Setup {
    pub(super) handlers: u8,
    pub(super) at_most_once: bool,
    /// The class `process`: a power loss undoes the last writes.
    pub(super) keeps_past: bool,
    /// Handlers may claim and settle at any time: fewer states than when the times of waits count.
    pub(super) is_eager: bool,
    pub(super) bug: Option<Bug>,
}

/// A request that nobody waits for.
#[derive(Clone, Copy, Debug, Hash)]
pub(super) enum Stray {
    Submit { id: u8, ask: Ask },
    Operate { id: u8, op: Op },
    Call { handler: u8, call: Call },
}

/// What a power loss goes back to.
type Past = (Store, [Truth; TASKS]);

/// Everything that is.
#[derive(Clone, Debug)]
pub(super) struct World {
    pub(super) setup: Setup,
    /// The true time, which no process can see.
    pub(super) now: Ms,
    /// How far the store's clock is ahead of it.
    pub(super) store_ahead: Ms,
    pub(super) epoch: u32,
    pub(super) store: Store,
    pub(super) handlers: [Handler; HANDLERS],
    pub(super) strays: [Option<Stray>; STRAYS],
    pub(super) judge: Judge,
    /// A ring; the last write that can be undone is before `past_next`.
    past: [Past; PAST],
    past_next: usize,
    past_len: usize,
    /// Claims in a row that found nothing.
    pub(super) idle_claims: u32,
    /// A worker started with the last step: whoever drives decides how long it takes.
    pub(super) has_started: bool,
}

impl World {
    pub(super) fn new(setup: Setup) -> Self {
        Self {
            setup,
            now: BEGIN,
            store_ahead: 0,
            epoch: 0,
            store: Store::new(setup.bug),
            handlers: [Handler::new(); HANDLERS],
            strays: [None; STRAYS],
            judge: Judge::new(),
            past: [(Store::new(setup.bug), [Truth::UNKNOWN; TASKS]); PAST],
            past_next: 0,
            past_len: 0,
            idle_claims: 0,
            has_started: false,
        }
    }

    /// Begins another world; the tally goes on.
    pub(super) fn begin(&mut self, setup: Setup) {
        self.setup = setup;
        self.now = BEGIN;
        self.store_ahead = 0;
        self.epoch = 0;
        self.store = Store::new(setup.bug);
        self.handlers = [Handler::new(); HANDLERS];
        self.strays = [None; STRAYS];
        self.judge.begin();
        self.past_len = 0;
        self.idle_claims = 0;
    }

    pub(super) fn violation(&self) -> Option<Violation> {
        self.judge.violation
    }

    pub(super) fn rules(&self) -> Rules {
        Rules {
            at_most_once: self.setup.at_most_once,
            bug: self.setup.bug,
        }
    }

    pub(super) fn store_now(&self) -> Ms {
        self.now + self.store_ahead
    }

    pub(super) fn moment(&self) -> Moment {
        Moment {
            now: self.now,
            store: self.store_now(),
            epoch: self.epoch,
        }
    }

    pub(super) fn handler(&mut self, handler: u8) -> &mut Handler {
        &mut self.handlers[usize::from(handler)]
    }

    /// Forgets what handlers wait for before they call again.
    pub(super) fn be_eager(&mut self) {
        for handler in &mut self.handlers {
            handler.claim_at = 0;
            handler.settle_at = 0;
        }
    }

    /// Takes a step; `false` when it is not possible now.
    pub(super) fn take(&mut self, step: Step) -> bool {
        self.has_started = false;
        match step {
            Step::Wait { ms } => self.now += ms,
            Step::Submit { id, ask, net } => self.submit(id, ask, net),
            Step::Operate { id, op, net } => self.operate(id, op, net),
            Step::Pause { ms } => self.store.paused_until = self.store_now() + ms,
            Step::Call { handler, kind, net } => return self.call(handler, kind, net),
            Step::Deliver { handler, kind } => return self.deliver(handler, kind),
            Step::Answer { handler, kind } => return self.answer(handler, kind),
            Step::GiveUp { handler, kind } => return self.give_up(handler, kind),
            Step::Stray { place } => return self.apply_stray(place),
            Step::Finish {
                handler,
                place,
                end,
            } => {
                self.look(handler);
                return self.handler(handler).acts() && self.handler(handler).finish(place, end);
            }
            Step::Look { handler } => self.look(handler),
            Step::Crash { handler } => return self.crash(handler),
            Step::Restart { handler } => return self.restart(handler),
            Step::Stop { handler } => return self.stop(handler, true),
            Step::Continue { handler } => return self.stop(handler, false),
            Step::CrashStore { undo } => self.crash_store(undo),
            Step::SetStoreClock { ahead } => {
                self.epoch += u32::from(ahead > self.store_ahead);
                self.store_ahead = ahead;
            }
            Step::SetCallerClock { handler, ahead } => self.handler(handler).skew = ahead,
        }
        true
    }

    /// Whether no handler has to look after its locks and results meanwhile.
    pub(super) fn may_wait(&self, ms: Ms) -> bool {
        let mut acting = self.handlers.iter().filter(|handler| handler.acts());
        acting.all(|handler| handler.duty_at(self.rules()) >= self.now + ms)
    }

    /// Before each write, in a world whose store can lose its last ones.
    pub(super) fn remember(&mut self) {
        if self.setup.keeps_past {
            self.past[self.past_next] = (self.store, self.judge.truths);
            self.past_next = (self.past_next + 1) % PAST;
            self.past_len = PAST.min(self.past_len + 1);
        }
    }

    fn check_structure(&mut self, id: u8) {
        self.judge.structure(id, &self.store.rows[usize::from(id)]);
    }

    fn submit(&mut self, id: u8, ask: Ask, net: Net) {
        if !matches!(net, Net::RequestLost | Net::Late) {
            self.apply_submit(id, ask);
        }
        if matches!(net, Net::Late | Net::Twice) {
            self.stray(Stray::Submit { id, ask });
        }
        if matches!(net, Net::Good | Net::Twice) {
            self.judge.seen[usize::from(id)].accepted = true;
        }
    }

    fn apply_submit(&mut self, id: u8, ask: Ask) {
        self.remember();
        let now = self.store_now();
        let accepted = self.store.submit(id, ask, now);
        let due = now + Ms::from(ask.delay);
        self.judge.submitted(id, accepted, due, self.moment());
        self.check_structure(id);
    }

    fn operate(&mut self, id: u8, op: Op, net: Net) {
        if !matches!(net, Net::RequestLost | Net::Late) {
            self.apply_op(id, op);
        }
        if matches!(net, Net::Late | Net::Twice) {
            self.stray(Stray::Operate { id, op });
        }
    }

    fn apply_op(&mut self, id: u8, op: Op) {
        self.remember();
        let answer = self.store.operate(id, op, self.store_now());
        self.judge.operated(id, op, answer, self.moment());
        self.check_structure(id);
    }

    pub(super) fn stray(&mut self, stray: Stray) {
        if let Some(place) = self.strays.iter_mut().find(|place| place.is_none()) {
            *place = Some(stray);
        }
    }

    fn apply_stray(&mut self, place: u8) -> bool {
        let Some(stray) = self.strays[usize::from(place)].take() else {
            return false;
        };
        self.judge.tally.took(Branch::StrayApplied);
        match stray {
            Stray::Submit { id, ask } => self.apply_submit(id, ask),
            Stray::Operate { id, op } => self.apply_op(id, op),
            Stray::Call { handler, mut call } => {
                self.handler(handler).faulted_at = self.now;
                self.apply(handler, &mut call);
            }
        }
        true
    }

    pub(super) fn look(&mut self, handler: u8) {
        let now = self.now;
        if self.handler(handler).acts() {
            for _ in 0..self.handler(handler).lose_what_ran_out(now) {
                self.judge.tally.took(Branch::LockRanOut);
            }
        }
    }

    fn crash(&mut self, handler: u8) -> bool {
        let now = self.now;
        let victim = self.handler(handler);
        if !victim.up {
            return false;
        }
        let calls = victim.calls;
        let skew = victim.skew;
        *victim = Handler::new();
        victim.up = false;
        victim.skew = skew;
        victim.faulted_at = now;
        for call in calls.into_iter().filter(|call| call.phase == Phase::Sent) {
            self.stray(Stray::Call { handler, call });
        }
        true
    }

    fn restart(&mut self, handler: u8) -> bool {
        let now = self.now;
        let victim = self.handler(handler);
        if victim.up {
            return false;
        }
        victim.up = true;
        victim.claim_at = now;
        self.judge.tally.took(Branch::HandlerRestarted);
        true
    }

    fn stop(&mut self, handler: u8, stopped: bool) -> bool {
        let now = self.now;
        let victim = self.handler(handler);
        if !victim.up || victim.stopped == stopped {
            return false;
        }
        victim.stopped = stopped;
        victim.faulted_at = now;
        self.look(handler);
        true
    }

    fn crash_store(&mut self, undo: u8) {
        for handler in 0..self.setup.handlers {
            self.handler(handler).faulted_at = self.now;
            self.drop_calls(handler);
        }
        self.store.restart();
        self.now += RESTART;
        let undo = usize::from(undo).min(self.past_len);
        if undo > 0 {
            let (store, truths) = self.past[(self.past_next + PAST - undo) % PAST];
            self.store = store;
            self.judge.rolled_back(&truths);
            self.past_len = 0;
            self.epoch += 1;
        }
    }
}

impl Hash for World {
    /// All but the tally: two worlds of the same hash have the same future.
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.now, self.store_ahead, self.epoch, &self.store).hash(state);
        (&self.handlers, &self.strays).hash(state);
        for undo in 1..=self.past_len {
            self.past[(self.past_next + PAST - undo) % PAST].hash(state);
        }
        (self.judge.truths, self.judge.seen).hash(state);
    }
}
