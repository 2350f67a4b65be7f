//! The steps that broke a promise, and the fewest of them that still do.

use std::fmt;

use super::step::Step;
use super::violation::Violation;
use super::world::{Setup, World};
use crate::check::Promise;

/// A violation, and how to see it again.
#[derive(Clone, Debug)]
pub struct Finding {
    /// What was broken.
    pub violation: Violation,
    /// The world's own seed, or none when it was found by exhausting a small scope.
    pub world: Option<u64>,
    setup: Setup,
    steps: Vec<Step>,
}

impl Finding {
    /// Cuts `steps` down to the fewest that break the same promise.
    pub(super) fn new(
        violation: Violation,
        world: Option<u64>,
        setup: Setup,
        steps: Vec<Step>,
    ) -> Self {
        Self {
            violation,
            world,
            setup,
            steps: shortest(setup, steps, violation.promise),
        }
    }

    /// The finding of a path that leads to a violation.
    pub(super) fn found(setup: Setup, steps: Vec<Step>) -> Option<Self> {
        let violation = replay(setup, &steps)?;
        Some(Self::new(violation, None, setup, steps))
    }

    /// How many steps are left.
    #[must_use]
    pub fn len(&self) -> usize {
        self.steps.len()
    }

    /// Whether the recovery alone breaks the promise.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.violation)?;
        if let Some(seed) = self.world {
            writeln!(f, "  world {seed}, {:?}", self.setup)?;
        } else {
            writeln!(f, "  small scope, {:?}", self.setup)?;
        }
        for step in &self.steps {
            writeln!(f, "  {step:?}")?;
        }
        write!(
            f,
            "  (all faults end; the handlers work until nothing is left)"
        )
    }
}

/// The violation that these steps and the recovery after them lead to. None when a handler is kept from
/// looking after its locks without a fault, which a world that is driven does not do.
fn replay(setup: Setup, steps: &[Step]) -> Option<Violation> {
    let mut world = World::new(setup);
    for step in steps {
        if let Step::Wait { ms } = step
            && !world.may_wait(*ms)
        {
            return None;
        }
        world.take(*step);
        if setup.is_eager {
            world.be_eager();
        }
        if world.violation().is_some() {
            return world.violation();
        }
    }
    world.recover();
    world.violation()
}

/// Leaves out ever smaller parts, as long as the same promise stays broken.
fn shortest(setup: Setup, mut steps: Vec<Step>, promise: Promise) -> Vec<Step> {
    let breaks =
        |steps: &[Step]| replay(setup, steps).is_some_and(|violation| violation.promise == promise);
    let mut part = steps.len().div_ceil(2);
    while part > 0 {
        let mut from = 0;
        let mut shorter = false;
        while from < steps.len() {
            let mut fewer = steps.clone();
            fewer.drain(from..(from + part).min(steps.len()));
            if breaks(&fewer) {
                steps = fewer;
                shorter = true;
            } else {
                from += part;
            }
        }
        if part > 1 || !shorter {
            part /= 2;
        }
    }
    joined(steps)
}

/// Waits that follow one another, as one.
fn joined(steps: Vec<Step>) -> Vec<Step> {
    let mut joined: Vec<Step> = Vec::with_capacity(steps.len());
    for step in steps {
        match (joined.last_mut(), step) {
            (Some(Step::Wait { ms: so_far }), Step::Wait { ms }) => *so_far += ms,
            _ => joined.push(step),
        }
    }
    joined
}
