//! Drives a world by a seed: what happens when, which faults, and how workers end.

#![allow(
    clippy::verbose_bit_mask,
    clippy::cast_possible_wrap,
    clippy::cast_sign_loss,
    reason = "one random number is cut into several dice by masks, and places are small numbers"
)]

use fastrand::Rng;

use super::bug::Bug;
use super::call::{Kind, Phase};
use super::row::{Ms, NEVER, Row, State, TASKS};
use super::step::{Net, Step};
use super::store::{Ask, Op};
use super::tally::Fault;
use super::world::{BEGIN, HANDLERS, STRAYS, Setup, World};

/// A world that takes more steps is left to its recovery.
const MAX_STEPS: usize = 400;
/// Claims in a row that find nothing: clocks that are an hour apart make tasks wait for as long.
const MAX_IDLE_CLAIMS: u32 = 12;
/// Wait before a submitter repeats itself.
const REPEAT: Ms = 300;

/// What can be next, each with its time: see the constants.
const SOURCES: usize = OPERATOR + 3;
const HANDLER: usize = 0;
const FLIGHT: usize = HANDLER + HANDLERS;
pub(super) const REVIVAL: usize = FLIGHT + HANDLERS;
pub(super) const SUBMITTER: usize = REVIVAL + HANDLERS;
pub(super) const STRAY: usize = SUBMITTER + TASKS;
const OPERATOR: usize = STRAY + STRAYS;
pub(super) const FAULT: usize = OPERATOR + 1;
pub(super) const OUTAGE_END: usize = OPERATOR + 2;

/// Above the number of sources; a power of two, so that dividing is cheap.
const KEY: Ms = 32;
/// Divides the number of sources.
const LANES: usize = 3;

/// One world after the other.
#[derive(Debug)]
pub(super) struct Driver {
    pub(super) world: World,
    /// How many steps the present world took.
    pub(super) taken: usize,
    /// These steps, while they are recorded.
    steps: Option<Vec<Step>>,
    pub(super) rng: Rng,
    pub(super) next: [Ms; SOURCES],
    pub(super) ends: [[Ms; TASKS]; HANDLERS],
    flights: [Kind; HANDLERS],
    asks: [Ask; TASKS],
    /// Of 64 calls, so many go wrong.
    bad_calls: u8,
    /// Most bad calls are slow ones, and workers take long.
    sluggish: bool,
    pub(super) faults_left: u8,
    ops_left: u8,
    pub(super) unreachable: bool,
    bug: Option<Bug>,
}

impl Driver {
    pub(super) fn new(bug: Option<Bug>) -> Self {
        let setup = Setup {
            handlers: 1,
            at_most_once: false,
            keeps_past: false,
            is_eager: false,
            bug,
        };
        Self {
            world: World::new(setup),
            taken: 0,
            steps: None,
            rng: Rng::with_seed(0),
            next: [NEVER; SOURCES],
            ends: [[NEVER; TASKS]; HANDLERS],
            flights: [Kind::Claim; HANDLERS],
            asks: [Ask {
                delay: 0,
                expires_in: None,
            }; TASKS],
            bad_calls: 0,
            sluggish: false,
            faults_left: 0,
            ops_left: 0,
            unreachable: false,
            bug,
        }
    }

    /// Lives through one world; returns how many tasks ended in it.
    pub(super) fn live(&mut self, seed: u64) -> u64 {
        self.begin(seed);
        while self.taken < MAX_STEPS && self.world.violation().is_none() {
            let Some(source) = self.soonest() else { break };
            self.act(source);
        }
        if self.world.violation().is_none() {
            self.world.recover();
        }
        let truths = &self.world.judge.truths;
        truths.iter().filter(|truth| truth.is_over()).count() as u64
    }

    /// Lives through one world again, for its steps. Recording all of them would cost a fifth of the speed.
    pub(super) fn record(bug: Option<Bug>, seed: u64) -> Vec<Step> {
        let mut driver = Self::new(bug);
        driver.steps = Some(Vec::new());
        driver.live(seed);
        driver.steps.unwrap_or_default()
    }

    fn begin(&mut self, seed: u64) {
        self.rng = Rng::with_seed(seed);
        let dice = self.rng.u32(..);
        let quiet = dice & 3 == 0;
        self.sluggish = !quiet && dice >> 17 & 15 == 0;
        self.bad_calls = match dice >> 2 & 3 {
            _ if quiet => 0,
            _ if self.sluggish => 32,
            dice => [0, 1, 4, 12][dice as usize],
        };
        self.faults_left = if quiet { 0 } else { (dice >> 4 & 3) as u8 };
        self.ops_left = (dice >> 6 & 3) as u8;
        self.unreachable = false;
        self.world.begin(Setup {
            handlers: 1 + (dice >> 8 & 7) as u8 % 3,
            at_most_once: dice >> 11 & 7 == 0,
            keeps_past: dice >> 14 & 3 == 0,
            is_eager: false,
            bug: self.bug,
        });
        self.taken = 0;
        self.next = [NEVER; SOURCES];
        self.ends = [[NEVER; TASKS]; HANDLERS];
        for handler in 0..usize::from(self.world.setup.handlers) {
            self.next[HANDLER + handler] = BEGIN;
        }
        for id in 0..TASKS {
            let dice = self.rng.u32(..);
            self.next[SUBMITTER + id] = BEGIN + Ms::from(dice & 511);
            self.asks[id] = Ask {
                delay: if dice >> 9 & 3 == 0 {
                    0
                } else {
                    (dice >> 11 & 2_047) as u16
                },
                expires_in: (dice >> 22 & 15 == 0).then_some((dice >> 26) as u16 * 32),
            };
        }
        let dice = self.rng.u32(..);
        if self.ops_left > 0 {
            self.next[OPERATOR] = BEGIN + Ms::from(dice & 2_047);
        }
        if self.faults_left > 0 {
            self.next[FAULT] = BEGIN + Ms::from(dice >> 11 & 2_047);
        }
    }

    /// The first source, with time having passed until then.
    fn soonest(&mut self) -> Option<usize> {
        let mut lanes = [Ms::MAX; LANES];
        for (chunk, times) in self.next.chunks_exact(LANES).enumerate() {
            for (lane, time) in times.iter().enumerate() {
                // One number for time and source, in lanes of their own: no branch, no long wait.
                let key = time * KEY + (chunk * LANES + lane) as Ms;
                lanes[lane] = lanes[lane].min(key);
            }
        }
        let first = lanes.into_iter().min().unwrap_or(Ms::MAX);
        let (first, at) = ((first % KEY) as usize, first / KEY);
        if at == NEVER || self.is_over() {
            return None;
        }
        if at > self.world.now {
            let ms = at - self.world.now;
            self.step(Step::Wait { ms });
        }
        Some(first)
    }

    /// Whether all tasks have ended, or wait for so long that only the recovery gets there.
    fn is_over(&self) -> bool {
        let is_scheduled = |row: &Row| row.state == State::Scheduled;
        let is_running = |row: &Row| row.state == State::Running;
        let rows = &self.world.store.rows;
        if rows.iter().any(is_running) {
            return false;
        }
        let waits = rows.iter().any(is_scheduled) && self.world.idle_claims < MAX_IDLE_CLAIMS;
        !waits && self.next[FLIGHT..].iter().all(|at| *at == NEVER)
    }

    pub(super) fn step(&mut self, step: Step) -> bool {
        self.taken += 1;
        if let Some(steps) = &mut self.steps {
            steps.push(step);
        }
        self.world.take(step)
    }

    fn act(&mut self, source: usize) {
        match source {
            FAULT => self.fault(),
            OUTAGE_END => {
                self.next[OUTAGE_END] = NEVER;
                self.unreachable = false;
            }
            OPERATOR => self.operate(),
            STRAY.. => {
                self.next[source] = NEVER;
                let place = small(source - STRAY);
                self.step(Step::Stray { place });
            }
            SUBMITTER.. => self.submit(source - SUBMITTER),
            REVIVAL.. => self.revive(source - REVIVAL),
            FLIGHT.. => self.fly(source - FLIGHT),
            _ => self.handle(source - HANDLER),
        }
    }

    /// What the network does to the next call.
    fn net(&mut self, slow: bool) -> Net {
        if self.unreachable {
            return Net::RequestLost;
        }
        if self.bad_calls == 0 {
            return Net::Good;
        }
        let dice = self.rng.u32(..);
        if (dice & 63) as u8 >= self.bad_calls {
            return Net::Good;
        }
        let (net, fault) = match dice >> 6 & 7 {
            _ if slow && self.sluggish => (Net::Slow, Fault::SlowCall),
            0 | 1 => (Net::RequestLost, Fault::RequestLost),
            2 | 3 => (Net::ReplyLost, Fault::ReplyLost),
            4 => (Net::Late, Fault::RequestLate),
            5 => (Net::Twice, Fault::DeliveredTwice),
            _ if slow => (Net::Slow, Fault::SlowCall),
            _ => (Net::RequestLost, Fault::RequestLost),
        };
        self.world.judge.tally.fired(fault);
        net
    }

    /// Gives requests that nobody waits for a time to arrive.
    pub(super) fn plan_strays(&mut self) {
        for place in 0..STRAYS {
            let planned = self.next[STRAY + place] != NEVER;
            if self.world.strays[place].is_some() && !planned {
                self.next[STRAY + place] = self.world.now + self.while_long();
            }
        }
    }

    fn submit(&mut self, id: usize) {
        let (net, ask, id8) = (self.net(false), self.asks[id], small(id));
        self.step(Step::Submit { id: id8, ask, net });
        self.plan_strays();
        let answered = matches!(net, Net::Good | Net::Twice);
        self.next[SUBMITTER + id] = if answered {
            NEVER
        } else {
            self.world.now + REPEAT
        };
    }

    fn operate(&mut self) {
        let dice = self.rng.u32(..);
        self.ops_left -= 1;
        self.next[OPERATOR] = match self.ops_left {
            0 => NEVER,
            _ => self.world.now + Ms::from(dice >> 16 & 2_047),
        };
        let op = match dice & 7 {
            0..=2 => Op::Cancel,
            3..=4 => Op::Reschedule {
                delay: (dice >> 8 & 1_023) as u16,
            },
            5..=6 => Op::Requeue,
            _ => {
                let ms = Ms::from(dice >> 8 & 2_047);
                self.step(Step::Pause { ms });
                return;
            }
        };
        let (id, net) = ((dice >> 3 & 3) as u8, self.net(false));
        self.step(Step::Operate { id, op, net });
        self.plan_strays();
    }

    fn handle(&mut self, index: usize) {
        let (handler, now) = (small(index), self.world.now);
        let rules = self.world.rules();
        if let Some(place) = self.ends[index].iter().position(|end| *end <= now) {
            self.ends[index][place] = NEVER;
            let (place, end) = (small(place), self.how_it_ends());
            self.step(Step::Finish {
                handler,
                place,
                end,
            });
        } else {
            let view = &self.world.handlers[index];
            let order = [Kind::Extend, Kind::Settle, Kind::Claim];
            match order.into_iter().find(|kind| view.wants(*kind, now, rules)) {
                Some(kind) => self.call(index, kind),
                None => {
                    self.step(Step::Look { handler });
                }
            }
        }
        self.plan(index);
    }

    fn call(&mut self, index: usize, kind: Kind) {
        let handler = small(index);
        let net = self.net(self.next[FLIGHT + index] == NEVER);
        self.step(Step::Call { handler, kind, net });
        match net {
            Net::Good => {}
            Net::Slow => {
                self.flights[index] = kind;
                self.next[FLIGHT + index] = self.world.now + self.while_long();
            }
            _ => self.plan_strays(),
        }
        self.plan_workers(index);
    }

    /// A slow call takes its next step.
    fn fly(&mut self, index: usize) {
        let (handler, kind) = (small(index), self.flights[index]);
        self.next[FLIGHT + index] = NEVER;
        match self.world.handlers[index].calls[kind as usize].phase {
            Phase::Idle => return,
            Phase::Sent => {
                self.step(Step::Deliver { handler, kind });
                self.next[FLIGHT + index] = self.world.now + self.while_long();
            }
            Phase::Answered if self.world.handlers[index].acts() => {
                self.step(Step::Answer { handler, kind });
                self.plan_workers(index);
            }
            Phase::Answered => {
                self.next[FLIGHT + index] = self.next[REVIVAL + index].max(self.world.now + 1);
            }
        }
        self.plan(index);
    }

    /// Decides how long workers take that have started with the last step.
    fn plan_workers(&mut self, index: usize) {
        if !self.world.has_started {
            return;
        }
        for place in 0..TASKS {
            let starts = self.world.handlers[index].spots[place].works();
            if !starts || self.ends[index][place] != NEVER {
                continue;
            }
            let dice = self.rng.u32(..);
            let takes = match dice & 15 {
                0..8 if self.sluggish => (dice >> 4) % 9_000,
                0 => (dice >> 4) % 9_000,
                1..=3 => dice >> 4 & 1_023,
                _ => dice >> 4 & 63,
            };
            self.ends[index][place] = self.world.now + Ms::from(takes);
        }
    }

    /// When this handler acts next.
    pub(super) fn plan(&mut self, index: usize) {
        let handler = &self.world.handlers[index];
        self.next[HANDLER + index] = if handler.acts() {
            let ends = self.ends[index].iter().min().copied().unwrap_or(NEVER);
            handler.next_at(self.world.rules()).min(ends)
        } else {
            NEVER
        };
    }
}

/// The worlds are so small that every index fits.
pub(super) fn small(index: usize) -> u8 {
    u8::try_from(index).unwrap_or(u8::MAX)
}
