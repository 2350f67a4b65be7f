//! One world: a store, its handlers, the network between them, and the clocks.

use std::hash::{Hash, Hasher};

use super::bug::Bug;
use super::call::{Answer, Call, Kind, Phase};
use super::handler::{Handler, Hold, News, Rules, Spot};
use super::judge::{Faith, Judge, Moment};
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

    fn moment(&self) -> Moment {
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
    fn remember(&mut self) {
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

    fn stray(&mut self, stray: Stray) {
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

    fn look(&mut self, handler: u8) {
        let now = self.now;
        if self.handler(handler).acts() {
            for _ in 0..self.handler(handler).lose_what_ran_out(now) {
                self.judge.tally.took(Branch::LockRanOut);
            }
        }
    }

    fn call(&mut self, handler: u8, kind: Kind, net: Net) -> bool {
        let (now, epoch, rules) = (self.now, self.epoch, self.rules());
        self.look(handler);
        let caller = self.handler(handler);
        if !caller.acts() || !caller.wants(kind, now, rules) {
            return false;
        }
        let mut call = caller.make(kind, now, epoch);
        match net {
            Net::Good => {
                self.apply(handler, &mut call);
                self.on_answer(handler, &call);
            }
            Net::RequestLost => self.on_error(handler, &call),
            Net::ReplyLost => {
                self.apply(handler, &mut call.clone());
                self.on_error(handler, &call);
            }
            Net::Late => {
                self.stray(Stray::Call { handler, call });
                self.on_error(handler, &call);
            }
            Net::Twice => {
                self.stray(Stray::Call { handler, call });
                self.apply(handler, &mut call);
                self.on_answer(handler, &call);
            }
            Net::Slow => {
                call.phase = Phase::Sent;
                *self.handler(handler).call(kind) = call;
            }
        }
        true
    }

    fn deliver(&mut self, handler: u8, kind: Kind) -> bool {
        let mut call = *self.handler(handler).call(kind);
        if call.phase != Phase::Sent {
            return false;
        }
        if call.sent_at < self.now {
            self.handler(handler).faulted_at = self.now;
        }
        self.apply(handler, &mut call);
        call.phase = Phase::Answered;
        *self.handler(handler).call(kind) = call;
        true
    }

    fn answer(&mut self, handler: u8, kind: Kind) -> bool {
        self.look(handler);
        let now = self.now;
        let caller = self.handler(handler);
        let call = *caller.call(kind);
        if call.phase != Phase::Answered || !caller.acts() {
            return false;
        }
        if call.sent_at < now {
            caller.faulted_at = now;
        }
        caller.call(kind).phase = Phase::Idle;
        self.on_answer(handler, &call);
        true
    }

    /// A request that has not arrived yet still may.
    fn give_up(&mut self, handler: u8, kind: Kind) -> bool {
        let call = *self.handler(handler).call(kind);
        if call.phase == Phase::Idle || !self.handler(handler).acts() {
            return false;
        }
        if call.phase == Phase::Sent {
            self.stray(Stray::Call { handler, call });
        }
        self.handler(handler).call(kind).phase = Phase::Idle;
        self.on_error(handler, &call);
        true
    }

    /// The store does what the call says.
    fn apply(&mut self, handler: u8, call: &mut Call) {
        self.remember();
        let (moment, now) = (self.moment(), self.store_now());
        match call.kind {
            Kind::Claim => self.apply_claim(handler, call),
            Kind::Settle => {
                for item in call.items_mut() {
                    let (answer, changed) = self.store.settle(item, now);
                    item.answer = answer;
                    self.judge.settled(item, changed, moment);
                }
            }
            Kind::Extend => {
                for item in call.items_mut() {
                    item.answer = self.store.extend(item, now);
                    self.judge.extended(item, moment);
                }
            }
        }
        for item in call.items() {
            self.judge
                .structure(item.id, &self.store.rows[usize::from(item.id)]);
        }
    }

    fn apply_claim(&mut self, handler: u8, call: &mut Call) {
        let (moment, now) = (self.moment(), self.store_now());
        let before = self.store.high_water;
        if !self.store.claim(call, now) {
            self.judge.tally.took(Branch::HeldBackByPause);
        } else if now > call.caller_now + super::store::GUARD {
            self.judge.tally.took(Branch::HeldBackByGuard);
        }
        if before > now * 1_000 && self.store.high_water > before {
            self.judge.tally.took(Branch::FenceAboveHighWater);
        }
        self.idle_claims = if call.len() == 0 {
            self.idle_claims + 1
        } else {
            0
        };
        let by = call.claimer(handler, moment);
        for item in call.items() {
            let after_expiry = self.judge.truth(item.id).lock.is_some();
            if after_expiry {
                let faith = self.faith(item.id);
                self.judge.lock_expired(item.id, faith, moment);
            }
            self.judge.claimed(item, after_expiry, by);
        }
    }

    /// Whether the holder of an expired lock could have known.
    fn faith(&self, id: u8) -> Faith {
        let Some(lock) = self.judge.truth(id).lock else {
            return Faith::Faulted;
        };
        let holder = &self.handlers[usize::from(lock.holder)];
        let believes = |spot: &Spot| {
            let fits = spot.hold == Hold::Running && spot.fence == lock.fence;
            fits && spot.run_out_at > self.now
        };
        if lock.epoch != self.epoch {
            Faith::Faulted
        } else if holder.acts() && holder.spots.iter().any(believes) {
            Faith::Believed
        } else if holder.acts() && holder.faulted_at < lock.at && !holder.waits(self.now) {
            Faith::Untouched
        } else {
            Faith::Faulted
        }
    }

    fn on_answer(&mut self, handler: u8, call: &Call) {
        let (now, rules, moment) = (self.now, self.rules(), self.moment());
        let caller = &mut self.handlers[usize::from(handler)];
        if call.kind == Kind::Claim {
            caller.on_claimed(call, now);
        }
        for item in call.items() {
            let news = match call.kind {
                Kind::Claim if item.answer == Answer::Given => caller.take(item, call, now, rules),
                Kind::Claim => News::Nothing,
                Kind::Settle => caller.on_settled(item),
                Kind::Extend => {
                    caller.on_extended(item, call, now, rules);
                    News::Nothing
                }
            };
            match news {
                News::Nothing => {}
                News::Starts => {
                    self.has_started = true;
                    self.judge
                        .started(item, call.epoch, rules.at_most_once, moment);
                    if call.kind == Kind::Settle {
                        self.judge.tally.took(Branch::OnceConfirmed);
                    }
                }
                News::GivenBack => self.judge.tally.took(Branch::LateClaimGivenBack),
                News::LastAttempt => self.judge.tally.took(Branch::LastAttemptRefused),
                News::Unconfirmed => self.judge.tally.took(Branch::OnceUnconfirmed),
            }
        }
    }

    fn on_error(&mut self, handler: u8, call: &Call) {
        let (now, rules) = (self.now, self.rules());
        for _ in 0..self.handler(handler).on_error(call, now, rules) {
            self.judge.tally.took(Branch::OnceUnconfirmed);
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

    /// Its connections break: what is under way fails.
    pub(super) fn drop_calls(&mut self, handler: u8) {
        for kind in Kind::ALL {
            let call = *self.handler(handler).call(kind);
            if call.phase != Phase::Idle {
                self.handler(handler).call(kind).phase = Phase::Idle;
                self.on_error(handler, &call);
            }
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
