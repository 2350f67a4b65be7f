//! The calls of handlers: made, applied, answered, and what becomes of them on the way.

use super::call::{Answer, Call, Kind, Phase};
use super::handler::{Hold, News, Spot};
use super::judge::Faith;
use super::step::Net;
use super::store::GUARD;
use super::tally::Branch;
use super::world::{Stray, World};

impl World {
    pub(super) fn call(&mut self, handler: u8, kind: Kind, net: Net) -> bool {
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

    pub(super) fn deliver(&mut self, handler: u8, kind: Kind) -> bool {
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

    pub(super) fn answer(&mut self, handler: u8, kind: Kind) -> bool {
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
    pub(super) fn give_up(&mut self, handler: u8, kind: Kind) -> bool {
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
    pub(super) fn apply(&mut self, handler: u8, call: &mut Call) {
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

    pub(super) fn apply_claim(&mut self, handler: u8, call: &mut Call) {
        let (moment, now) = (self.moment(), self.store_now());
        let before = self.store.high_water;
        if !self.store.claim(call, now) {
            self.judge.tally.took(Branch::HeldBackByPause);
        } else if now > call.caller_now + GUARD {
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
    pub(super) fn faith(&self, id: u8) -> Faith {
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

    pub(super) fn on_answer(&mut self, handler: u8, call: &Call) {
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

    pub(super) fn on_error(&mut self, handler: u8, call: &Call) {
        let (now, rules) = (self.now, self.rules());
        for _ in 0..self.handler(handler).on_error(call, now, rules) {
            self.judge.tally.took(Branch::OnceUnconfirmed);
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
