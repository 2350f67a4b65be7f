//! A handler's own view: the locks it holds, and what each of them needs next.
//!
//! As in delayq-plugin: locks are reckoned from before the claim was sent, extended at a third of their
//! length, and lost when they run out unextended; results wait until their settlement is answered.

use super::bug::Bug;
use super::call::{Answer, Call, End, Item, Kind, Phase};
use super::row::{Ms, NEVER, TASKS};
use super::store::LOCK;

/// A claim is sent at least this often.
pub(super) const POLL: Ms = 1_000;
/// Wait before a failed claim or settlement is repeated.
const BACKOFF: Ms = 100;
/// Wait before a failed extension is repeated.
const EXTEND_RETRY: Ms = 200;
/// The last attempt of a task.
pub(super) const MAX_ATTEMPTS: u8 = 4;

/// What a place for an attempt is used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Hold {
    Free,
    /// The worker runs, and the lock is good.
    Running,
    /// The worker runs, and its lock is lost.
    Lost,
    /// The attempt has ended and waits to be settled.
    Ended(End),
    /// At most once: to be settled before the worker starts.
    Unconfirmed,
    /// At most once: the worker runs, settled already.
    Once,
}

/// A place for one attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Spot {
    pub(super) hold: Hold,
    pub(super) extending: bool,
    pub(super) settling: bool,
    pub(super) id: u8,
    pub(super) attempt: u8,
    pub(super) epoch: u32,
    pub(super) fence: i64,
    /// On the true clock, which nobody can set.
    pub(super) run_out_at: Ms,
    pub(super) extend_at: Ms,
}

impl Spot {
    const FREE: Self = Self {
        hold: Hold::Free,
        extending: false,
        settling: false,
        id: 0,
        attempt: 0,
        epoch: 0,
        fence: 0,
        run_out_at: NEVER,
        extend_at: NEVER,
    };

    /// Whether its worker is under way.
    pub(super) fn works(&self) -> bool {
        matches!(self.hold, Hold::Running | Hold::Lost | Hold::Once)
    }

    fn must_settle(&self) -> bool {
        matches!(self.hold, Hold::Ended(_) | Hold::Unconfirmed) && !self.settling
    }

    /// When its lock needs something.
    fn timer(&self) -> Ms {
        match self.hold {
            Hold::Running if self.extending => self.run_out_at,
            Hold::Running => self.extend_at.min(self.run_out_at),
            _ => NEVER,
        }
    }

    fn item(&self, hold: usize) -> Item {
        Item {
            id: self.id,
            hold: u8::try_from(hold).unwrap_or(u8::MAX),
            attempt: self.attempt,
            fence: self.fence,
            ..Item::NONE
        }
    }
}

/// How the handler is set up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Rules {
    /// Settled as done before the start.
    pub(super) at_most_once: bool,
    pub(super) bug: Option<Bug>,
}

/// One handler, in one process.
#[derive(Clone, Copy, Debug, Hash)]
pub(super) struct Handler {
    pub(super) up: bool,
    /// The process is stopped, and does not know.
    pub(super) stopped: bool,
    /// Its loop has ended, which only a bug does.
    pub(super) ended: bool,
    /// How far its clock is off.
    pub(super) skew: Ms,
    /// When a fault touched it last; true clock.
    pub(super) faulted_at: Ms,
    pub(super) claim_at: Ms,
    pub(super) settle_at: Ms,
    pub(super) spots: [Spot; TASKS],
    pub(super) calls: [Call; 3],
}

/// What an answered call means for the world.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum News {
    Nothing,
    Starts,
    GivenBack,
    LastAttempt,
    Unconfirmed,
}

impl Handler {
    pub(super) fn new() -> Self {
        Self {
            up: true,
            stopped: false,
            ended: false,
            skew: 0,
            faulted_at: -1,
            claim_at: 0,
            settle_at: 0,
            spots: [Spot::FREE; TASKS],
            calls: Kind::ALL.map(Call::new),
        }
    }

    pub(super) fn acts(&self) -> bool {
        self.up && !self.stopped
    }

    pub(super) fn call(&mut self, kind: Kind) -> &mut Call {
        &mut self.calls[kind as usize]
    }

    /// Whether it waits for the answer to a slow call.
    pub(super) fn waits(&self, now: Ms) -> bool {
        let slow = |call: &Call| call.phase != Phase::Idle && call.sent_at < now;
        self.calls.iter().any(slow)
    }

    fn is_idle(&self, kind: Kind) -> bool {
        self.calls[kind as usize].phase == Phase::Idle
    }

    fn free(&self) -> u8 {
        let free = |spot: &&Spot| spot.hold == Hold::Free;
        u8::try_from(self.spots.iter().filter(free).count()).unwrap_or(u8::MAX)
    }

    /// Whether a call of this kind is due.
    pub(super) fn wants(&self, kind: Kind, now: Ms, rules: Rules) -> bool {
        let due = |spot: &Spot| {
            let good = spot.hold == Hold::Running && !spot.extending;
            good && spot.extend_at <= now && now < spot.run_out_at
        };
        self.is_idle(kind)
            && match kind {
                Kind::Claim => self.claim_at <= now && self.free() > 0 && !self.ended,
                Kind::Settle => self.settle_at <= now && self.spots.iter().any(Spot::must_settle),
                Kind::Extend => {
                    self.spots.iter().any(due) && rules.bug != Some(Bug::LockNeverExtended)
                }
            }
    }

    /// When a lock or a result has to be looked after.
    pub(super) fn duty_at(&self, rules: Rules) -> Ms {
        let mut next = NEVER;
        let mut must_settle = false;
        for spot in &self.spots {
            let timer = match rules.bug {
                Some(Bug::LockNeverExtended) if spot.hold == Hold::Running => spot.run_out_at,
                _ => spot.timer(),
            };
            next = next.min(timer);
            must_settle |= spot.must_settle();
        }
        if must_settle && self.is_idle(Kind::Settle) {
            next = next.min(self.settle_at);
        }
        next
    }

    /// When something is due next, but for workers that end and calls that are answered.
    pub(super) fn next_at(&self, rules: Rules) -> Ms {
        let duty_at = self.duty_at(rules);
        if self.ended || !self.is_idle(Kind::Claim) || self.free() == 0 {
            return duty_at;
        }
        duty_at.min(self.claim_at)
    }

    /// Makes the call that is due.
    pub(super) fn make(&mut self, kind: Kind, now: Ms, epoch: u32) -> Call {
        let mut call = Call::new(kind);
        call.sent_at = now;
        call.epoch = epoch;
        call.caller_now = now + self.skew;
        match kind {
            Kind::Claim => call.limit = self.free(),
            Kind::Settle => {
                for (place, spot) in self.spots.iter_mut().enumerate() {
                    if spot.must_settle() {
                        spot.settling = true;
                        let end = match spot.hold {
                            Hold::Ended(end) => end,
                            _ => End::Done,
                        };
                        call.push(Item {
                            end,
                            ..spot.item(place)
                        });
                    }
                }
            }
            Kind::Extend => {
                for (place, spot) in self.spots.iter_mut().enumerate() {
                    if spot.hold == Hold::Running && !spot.extending && spot.extend_at <= now {
                        spot.extending = true;
                        call.push(spot.item(place));
                    }
                }
            }
        }
        call
    }

    /// Locks that have run out are lost; returns how many.
    pub(super) fn lose_what_ran_out(&mut self, now: Ms) -> usize {
        let mut lost = 0;
        for spot in &mut self.spots {
            if spot.hold == Hold::Running && spot.run_out_at <= now {
                spot.hold = Hold::Lost;
                lost += 1;
            }
        }
        lost
    }

    /// A claim was answered.
    pub(super) fn on_claimed(&mut self, call: &Call, now: Ms) {
        let wait = if call.is_full() {
            0
        } else {
            call.next_in.clamp(0, POLL)
        };
        self.claim_at = (call.sent_at + wait).max(now + Ms::from(!call.is_full()));
    }

    /// One task of an answered claim takes a place.
    pub(super) fn take(&mut self, item: &Item, call: &Call, now: Ms, rules: Rules) -> News {
        let reckoned_from = match rules.bug {
            Some(Bug::LockReckonedFromAnswer) => now,
            _ => call.sent_at,
        };
        let late = call.sent_at + LOCK * 2 / 3 <= now && rules.bug != Some(Bug::StartsRunOutClaim);
        let Some(spot) = self.spots.iter_mut().find(|spot| spot.hold == Hold::Free) else {
            return News::Nothing;
        };
        let (hold, news) = if item.attempt > MAX_ATTEMPTS {
            (Hold::Ended(End::Dead), News::LastAttempt)
        } else if rules.at_most_once && rules.bug == Some(Bug::OnceStartsUnsettled) {
            (Hold::Running, News::Starts)
        } else if rules.at_most_once {
            (Hold::Unconfirmed, News::Nothing)
        } else if late {
            (Hold::Ended(End::Release { after: 0 }), News::GivenBack)
        } else {
            (Hold::Running, News::Starts)
        };
        *spot = Spot {
            hold,
            extending: false,
            settling: false,
            id: item.id,
            attempt: item.attempt,
            epoch: call.epoch,
            fence: item.fence,
            run_out_at: reckoned_from + LOCK,
            extend_at: reckoned_from + LOCK / 3,
        };
        news
    }

    /// One settlement was answered.
    pub(super) fn on_settled(&mut self, item: &Item) -> News {
        let spot = &mut self.spots[usize::from(item.hold)];
        if !spot.settling || spot.fence != item.fence {
            return News::Nothing;
        }
        spot.settling = false;
        if spot.hold != Hold::Unconfirmed {
            *spot = Spot::FREE;
            return News::Nothing;
        }
        if item.answer != Answer::Settled {
            *spot = Spot::FREE;
            return News::Unconfirmed;
        }
        spot.hold = Hold::Once;
        News::Starts
    }

    /// One extension was answered.
    pub(super) fn on_extended(&mut self, item: &Item, call: &Call, now: Ms, rules: Rules) {
        let spot = &mut self.spots[usize::from(item.hold)];
        if !spot.extending || spot.fence != item.fence {
            return;
        }
        spot.extending = false;
        if spot.hold != Hold::Running {
            return;
        }
        if item.answer == Answer::LockLost {
            spot.hold = Hold::Lost;
            return;
        }
        let reckoned_from = match rules.bug {
            Some(Bug::LockReckonedFromAnswer) => now,
            _ => call.sent_at,
        };
        spot.run_out_at = reckoned_from + LOCK;
        spot.extend_at = reckoned_from + LOCK / 3;
        spot.epoch = call.epoch;
    }

    /// A call failed, or its answer was lost. Returns how many at-most-once tasks were given up.
    pub(super) fn on_error(&mut self, call: &Call, now: Ms, rules: Rules) -> usize {
        self.faulted_at = now;
        let mut given_up = 0;
        match call.kind {
            Kind::Claim => {
                self.claim_at = now + BACKOFF;
                self.ended |= rules.bug == Some(Bug::ErrorEndsHandler);
            }
            Kind::Settle => self.settle_at = now + BACKOFF,
            Kind::Extend => {}
        }
        for item in call.items() {
            let spot = &mut self.spots[usize::from(item.hold)];
            if spot.fence != item.fence {
                continue;
            }
            match call.kind {
                Kind::Claim => {}
                Kind::Settle => {
                    spot.settling = false;
                    if spot.hold == Hold::Unconfirmed && spot.run_out_at <= now + BACKOFF {
                        *spot = Spot::FREE;
                        given_up += 1;
                    }
                }
                Kind::Extend => {
                    spot.extending = false;
                    spot.extend_at = now + EXTEND_RETRY;
                }
            }
        }
        given_up
    }

    /// A worker has come back.
    pub(super) fn finish(&mut self, place: u8, end: End) -> bool {
        let spot = &mut self.spots[usize::from(place)];
        if !spot.works() {
            return false;
        }
        let end = match end {
            End::Retry { .. } if spot.attempt >= MAX_ATTEMPTS => End::Dead,
            end => end,
        };
        if spot.hold == Hold::Once {
            *spot = Spot::FREE;
        } else {
            spot.hold = Hold::Ended(end);
        }
        true
    }
}
