//! A run of many worlds, and its report.

use std::fmt;
use std::time::{Duration, Instant};

use super::bug::Bug;
use super::driver::Driver;
use super::tally::{Branch, Excuse, Fault, Tally};
use super::trace::Finding;
use crate::check::Promise;

/// Most findings that a run keeps, one for each promise at most.
const MAX_FINDINGS: usize = 8;

/// What to run.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// At least so many tasks have to end.
    pub lifecycles: u64,
    /// Repeats the run.
    pub seed: u64,
    /// The planted bug.
    pub bug: Option<Bug>,
}

/// What came of it.
#[derive(Clone, Debug)]
pub struct Report {
    /// Tasks that ended.
    pub lifecycles: u64,
    /// Worlds that they lived in.
    pub worlds: u64,
    /// Steps that these took, without the recoveries.
    pub steps: u64,
    /// The time on the wall.
    pub took: Duration,
    /// The first violation of each promise, with its shortest trace.
    pub findings: Vec<Finding>,
    /// How many worlds broke a promise.
    pub broken: u64,
    tally: Tally,
}

impl Report {
    /// Faults and branches that never happened: such a run proves nothing.
    #[must_use]
    pub fn missing(&self) -> Vec<String> {
        let faults = self.tally.faults().filter(|(_, count)| *count == 0);
        let branches = self.tally.branches().filter(|(_, count)| *count == 0);
        let faults = faults.map(|(fault, _)| format!("{fault:?}"));
        faults
            .chain(branches.map(|(branch, _)| format!("{branch:?}")))
            .collect()
    }

    /// Whether nothing was broken, and everything was tried.
    #[must_use]
    pub fn is_good(&self) -> bool {
        self.broken == 0 && self.missing().is_empty()
    }

    /// Whether this promise was broken.
    #[must_use]
    pub fn names(&self, promise: Promise) -> bool {
        self.findings
            .iter()
            .any(|finding| finding.violation.promise == promise)
    }

    /// Lifecycles a second.
    #[must_use]
    pub fn rate(&self) -> u64 {
        let ms = self.took.as_millis().max(1);
        u64::try_from(u128::from(self.lifecycles) * 1_000 / ms).unwrap_or(u64::MAX)
    }
}

/// Runs worlds until enough tasks have ended.
#[must_use]
pub fn run(plan: Plan) -> Report {
    let began = Instant::now();
    let mut driver = Driver::new(plan.bug);
    let mut report = Report {
        lifecycles: 0,
        worlds: 0,
        steps: 0,
        took: Duration::ZERO,
        findings: Vec::new(),
        broken: 0,
        tally: Tally::default(),
    };
    while report.lifecycles < plan.lifecycles {
        let seed = mix(plan.seed, report.worlds);
        report.worlds += 1;
        report.lifecycles += driver.live(seed).max(u64::from(plan.bug.is_some()));
        report.steps += driver.taken as u64;
        if let Some(violation) = driver.world.violation() {
            report.broken += 1;
            if !report.names(violation.promise) && report.findings.len() < MAX_FINDINGS {
                let setup = driver.world.setup;
                let finding =
                    Finding::new(violation, Some(seed), setup, Driver::record(plan.bug, seed));
                report.findings.push(finding);
            }
        }
    }
    report.tally = driver.world.judge.tally;
    report.took = began.elapsed();
    report
}

/// A seed for each world (the mixer of `SplitMix64`).
fn mix(seed: u64, world: u64) -> u64 {
    let mut z = seed.wrapping_add(world.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (lifecycles, worlds, steps) = (self.lifecycles, self.worlds, self.steps);
        let (took, rate) = (self.took, self.rate());
        writeln!(f, "{lifecycles} lifecycles, {worlds} worlds, {steps} steps")?;
        writeln!(f, "{took:.1?}, {rate} lifecycles a second")?;
        writeln!(f, "faults")?;
        for (fault, count) in self.tally.faults() {
            writeln!(f, "  {count:>12}  {}", words::<Fault>(fault))?;
        }
        writeln!(f, "branches")?;
        for (branch, count) in self.tally.branches() {
            writeln!(f, "  {count:>12}  {}", words::<Branch>(branch))?;
        }
        writeln!(f, "outside of what is promised")?;
        for (excuse, count) in self.tally.excuses() {
            writeln!(f, "  {count:>12}  {}", words::<Excuse>(excuse))?;
        }
        for finding in &self.findings {
            writeln!(f, "{finding}")?;
        }
        for missing in self.missing() {
            writeln!(f, "never happened: {missing}")?;
        }
        let verdict = match (self.broken, self.is_good()) {
            (0, true) => "good: no promise broken, every fault and branch taken".to_owned(),
            (0, false) => "invalid: not everything happened".to_owned(),
            (broken, _) => format!("broken: in {broken} worlds"),
        };
        write!(f, "{verdict}")
    }
}

/// `LockTakenOver` as `lock taken over`.
fn words<T: fmt::Debug>(name: T) -> String {
    let mut words = String::new();
    for letter in format!("{name:?}").chars() {
        if letter.is_uppercase() && !words.is_empty() {
            words.push(' ');
        }
        words.extend(letter.to_lowercase());
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The judge blamed them wrongly in runs of 10^8 lifecycles: a start of an earlier life; a fence given twice that it
    /// had excused at the claim and not at the start; and an id that was free again, as its end was forgotten while
    /// the store's clock was an hour ahead.
    #[test]
    fn worlds_that_were_blamed_wrongly_are_good() {
        let mut driver = Driver::new(None);
        let worlds = [
            1_630_489_662_277_477_480,
            9_533_437_315_174_799_215,
            5_080_437_203_353_439_731,
        ];
        for seed in worlds {
            driver.live(seed);
            assert_eq!(driver.world.violation(), None, "world {seed}");
        }
    }
}
