//! Every interleaving of a small scope: two tasks, two handlers, one crash, one pause, one lost reply,
//! at any point. From every state that can be reached, the recovery is tried, too.
//!
//! A search with hashed states of its own: the steps, the judge and the recovery are those of the
//! simulation, and a model checker as a library would bring a web server and a thread pool for the
//! forty lines that are left.

use std::collections::HashSet;
use std::fmt;
use std::hash::{Hash, Hasher};

use xxhash_rust::xxh3::Xxh3Default;

use super::bug::Bug;
use super::call::{End, Kind, Phase};
use super::row::{Ms, TASKS};
use super::step::{Net, Step};
use super::store::Ask;
use super::trace::Finding;
use super::world::{BEGIN, Setup, World};

/// Handlers of the scope.
const SCOPE_HANDLERS: u8 = 2;
/// No state is later than this: a lock can expire and be taken over.
const HORIZON: Ms = BEGIN + 3_000;
/// The longest wait at once.
const LONGEST_WAIT: Ms = 1_000;
/// What the tasks ask for: one due now, one while the first may run.
const ASKS: [Ask; 2] = [
    Ask {
        delay: 0,
        expires_in: None,
    },
    Ask {
        delay: 1_000,
        expires_in: None,
    },
];

/// What is left of the faults.
#[derive(Clone, Copy, Debug, Hash)]
struct Budget {
    crashes: u8,
    stops: u8,
    lost_replies: u8,
}

/// A state: a world, and what may still be done to it.
#[derive(Clone, Debug, Hash)]
struct Node {
    world: World,
    budget: Budget,
}

/// The steps from one node to the next: a call is sent and arrives at once.
type Took = [Option<Step>; 2];

/// What an exhausted scope has shown.
#[derive(Clone, Debug)]
pub struct Exhausted {
    /// States that can be reached.
    pub states: u64,
    /// Steps between them.
    pub steps: u64,
    /// The first violation, with its shortest trace.
    pub finding: Option<Finding>,
}

impl fmt::Display for Exhausted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (states, steps) = (self.states, self.steps);
        writeln!(f, "{states} states, {steps} steps between them")?;
        match &self.finding {
            None => write!(
                f,
                "good: no promise broken in any state, nor in its recovery"
            ),
            Some(finding) => write!(f, "{finding}"),
        }
    }
}

/// Tries everything that can happen in the small scope, until a promise is broken.
#[must_use]
pub fn exhaust(bug: Option<Bug>) -> Exhausted {
    let setup = Setup {
        handlers: SCOPE_HANDLERS,
        at_most_once: false,
        keeps_past: false,
        is_eager: true,
        bug,
    };
    let mut world = World::new(setup);
    let mut search = Search::default();
    for (id, ask) in (0..).zip(ASKS) {
        let net = Net::Good;
        world.take(Step::Submit { id, ask, net });
        search.path.push(Step::Submit { id, ask, net });
    }
    let first = Node {
        world,
        budget: Budget {
            crashes: 1,
            stops: 1,
            lost_replies: 1,
        },
    };
    search.explore(first);
    let finding = search.broken.then(|| Finding::found(setup, search.path));
    Exhausted {
        states: search.seen.len() as u64,
        steps: search.steps,
        finding: finding.flatten(),
    }
}

/// Depth first: its memory is the hashes, and the nodes beside one path.
#[derive(Debug, Default)]
struct Search {
    seen: HashSet<u64>,
    steps: u64,
    /// The steps to the present node.
    path: Vec<Step>,
    broken: bool,
}

impl Search {
    fn explore(&mut self, first: Node) {
        let mut open = vec![(first, Took::default(), self.path.len())];
        while let Some((node, steps, depth)) = open.pop() {
            self.path.truncate(depth);
            self.path.extend(steps.into_iter().flatten());
            if node.world.violation().is_some() || !recovers(&node.world) {
                self.broken = true;
                return;
            }
            node.each_next(|next, steps| {
                self.steps += 1;
                if self.seen.insert(hash(&next)) {
                    open.push((next, steps, self.path.len()));
                }
            });
        }
    }
}

/// Whether everything ends well if nothing more goes wrong.
fn recovers(world: &World) -> bool {
    let mut world = world.clone();
    world.recover();
    world.violation().is_none()
}

fn hash(node: &Node) -> u64 {
    let mut hasher = Xxh3Default::new();
    node.hash(&mut hasher);
    hasher.finish()
}

impl Node {
    /// Calls `visit` with every node that one step leads to.
    fn each_next(&self, mut visit: impl FnMut(Node, Took)) {
        let mut offer = |step: Step, spend: fn(&mut Budget)| {
            let mut next = self.clone();
            spend(&mut next.budget);
            let arrives = match step {
                Step::Call { handler, kind, .. } => Some(Step::Deliver { handler, kind }),
                _ => None,
            };
            if next.world.take(step) && arrives.is_none_or(|step| next.world.take(step)) {
                next.world.be_eager();
                visit(next, [Some(step), arrives]);
            }
        };
        for handler in 0..SCOPE_HANDLERS {
            self.offer_faults(handler, &mut offer);
            self.offer_calls(handler, &mut offer);
            self.offer_workers(handler, &mut offer);
        }
        if let Some(ms) = self.wait() {
            offer(Step::Wait { ms }, |_| {});
        }
    }

    fn offer_faults(&self, handler: u8, offer: &mut impl FnMut(Step, fn(&mut Budget))) {
        if self.budget.crashes > 0 {
            offer(Step::Crash { handler }, |budget| budget.crashes -= 1);
        }
        if self.budget.stops > 0 {
            offer(Step::Stop { handler }, |budget| budget.stops -= 1);
        }
        offer(Step::Restart { handler }, |_| {});
        offer(Step::Continue { handler }, |_| {});
    }

    /// When a call is sent does not matter, only when it arrives: that is one step. The answer is
    /// another one: meanwhile anything may happen.
    fn offer_calls(&self, handler: u8, offer: &mut impl FnMut(Step, fn(&mut Budget))) {
        for kind in Kind::ALL {
            if kind != Kind::Claim || self.has_work() {
                let net = Net::Slow;
                offer(Step::Call { handler, kind, net }, |_| {});
            }
            offer(Step::Answer { handler, kind }, |_| {});
            let calls = &self.world.handlers[usize::from(handler)].calls;
            let is_answered = calls[kind as usize].phase == Phase::Answered;
            if is_answered && self.budget.lost_replies > 0 {
                offer(Step::GiveUp { handler, kind }, |budget| {
                    budget.lost_replies -= 1;
                });
            }
        }
    }

    fn offer_workers(&self, handler: u8, offer: &mut impl FnMut(Step, fn(&mut Budget))) {
        let spots = &self.world.handlers[usize::from(handler)].spots;
        for place in (0..TASKS).filter(|place| spots[*place].works()) {
            let place = u8::try_from(place).unwrap_or(u8::MAX);
            let end = End::Done;
            offer(
                Step::Finish {
                    handler,
                    place,
                    end,
                },
                |_| {},
            );
        }
    }

    /// Whether a claim would find anything; one that does not changes nothing.
    fn has_work(&self) -> bool {
        let now = self.world.store_now();
        let mut rows = self.world.store.rows.iter();
        rows.any(|row| row.due.min(row.lock_until) <= now)
    }

    /// Until when nothing has to happen; none while something has to, or at the horizon. A claim need not:
    /// handlers may be slow to find work, and the recovery shows that they do.
    fn wait(&self) -> Option<Ms> {
        let world = &self.world;
        let mut next = world.now + LONGEST_WAIT;
        for handler in world.handlers.iter().take(usize::from(SCOPE_HANDLERS)) {
            if handler.acts() {
                let is_called = handler.calls.iter().any(|call| call.phase != Phase::Idle);
                let at = handler.duty_at(world.rules());
                if at <= world.now || is_called {
                    return None;
                }
                next = next.min(at);
            }
        }
        (next <= HORIZON).then_some(next - world.now)
    }
}
