//! The steps of a command in order, with their commands and durations, and a table at the end.

use std::time::{Duration, Instant};

use crate::call::{Call, Failure};
use crate::install::{self, Installs};
use crate::left_out::LeftOut;
use crate::oldest;
use crate::programs::Programs;
use crate::step::Step;
use crate::table::Table;

/// Which steps to run.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Run only this step; may be given several times.
    #[arg(long, value_name = "STEP")]
    only: Vec<Step>,
    /// Leave out this step; may be given several times.
    #[arg(long, value_name = "STEP")]
    skip: Vec<Step>,
}

impl Args {
    fn wants(&self, step: Step) -> bool {
        (self.only.is_empty() || self.only.contains(&step)) && !self.skip.contains(&step)
    }

    /// A step of another command, which this one would pass over in silence.
    fn stranger(&self, steps: &[Step]) -> Option<Step> {
        let mut named = self.only.iter().chain(&self.skip).copied();
        named.find(|step| !steps.contains(step))
    }
}

/// The two commands that have steps.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Gate {
    /// Installs what the tests need, and runs them.
    Test,
    /// Everything else that can be told without running the product.
    Check,
}

impl Gate {
    fn name(self) -> &'static str {
        match self {
            Self::Test => "test",
            Self::Check => "check",
        }
    }

    /// Its steps. What fails soonest and costs least comes first.
    pub(crate) fn steps(self) -> &'static [Step] {
        match self {
            Self::Test => &[Step::Install, Step::Fmt, Step::Tests, Step::DocTests],
            Self::Check => &[
                Step::Clippy,
                Step::Docs,
                Step::Features,
                Step::Summer,
                Step::OldestRust,
                Step::Deny,
            ],
        }
    }

    /// Runs the steps until one fails.
    pub(crate) fn run(self, args: &Args) -> Result<(), Failure> {
        if let Some(step) = args.stranger(self.steps()) {
            let other = if self.name() == "test" {
                "check"
            } else {
                "test"
            };
            return Err(Failure(format!(
                "{} is a step of `cargo xtask {other}`",
                step.name()
            )));
        }
        let mut table = Table::default();
        let mut progress = Progress::default();
        let mut failed = None;
        for step in self.steps().iter().copied() {
            let name = step.name();
            if failed.is_some() {
                table.add(&name, "not run", Duration::ZERO);
            } else if args.wants(step) {
                let started = Instant::now();
                println!("\n== {name}: {}", step.about());
                let result = progress.run(step);
                let verdict = if result.is_ok() { "passed" } else { "FAILED" };
                let took = started.elapsed();
                println!("  {name}: {verdict} after {:.1} s", took.as_secs_f64());
                table.add(&name, verdict, took);
                failed = result.err().map(|failure| (step, failure));
            } else {
                table.add(&name, "left out", Duration::ZERO);
            }
        }
        // A run of the step alone still installs all; who failed is told at once.
        let installed = match failed {
            None => progress.installed(),
            Some(_) => Ok(()),
        };
        table.print();
        let judged = progress.left_out.judge();
        match failed {
            Some((step, failure)) => Err(self.explain(step, &failure)),
            None => installed.and(judged),
        }
    }

    fn explain(self, step: Step, failure: &Failure) -> Failure {
        let (command, name) = (self.name(), step.name());
        Failure(format!(
            "step {name} failed: {failure}\nto repeat it: cargo xtask {command} --only {name}"
        ))
    }
}

/// What one step leaves for later ones.
#[derive(Debug, Default)]
struct Progress {
    installs: Option<Installs>,
    left_out: LeftOut,
}

impl Progress {
    fn run(&mut self, step: Step) -> Result<(), Failure> {
        match step {
            Step::Install => {
                self.installs = Some(install::begin()?);
                Ok(())
            }
            Step::Tests => {
                let programs = Programs::build()?;
                self.installed()?;
                programs.run(&mut self.left_out)
            }
            Step::OldestRust => oldest::rust(),
            Step::Deny => deny(&mut self.left_out),
            Step::DocTests => step.calls().iter().try_for_each(Call::run_tests),
            _ => step.calls().iter().try_for_each(Call::run),
        }
    }

    fn installed(&mut self) -> Result<(), Failure> {
        self.installs.take().map_or(Ok(()), Installs::join)
    }
}

fn deny(left_out: &mut LeftOut) -> Result<(), Failure> {
    if !Call::new("cargo deny --version").succeeds() {
        left_out.add("cargo-deny is not here; `cargo install --locked cargo-deny` installs it");
        return Ok(());
    }
    let settled = "bans licenses sources";
    Call::new(&format!(
        "cargo deny --locked check --hide-inclusion-graph {settled}"
    ))
    .run()?;
    if !Call::new("cargo deny fetch db").succeeds() {
        left_out.add("the database of advisories cannot be fetched from here");
        return Ok(());
    }
    Call::new("cargo deny --locked check --hide-inclusion-graph advisories").run()
}

#[cfg(test)]
mod tests {
    use clap::ValueEnum;

    use super::*;

    fn args(only: &[Step], skip: &[Step]) -> Args {
        Args {
            only: only.to_vec(),
            skip: skip.to_vec(),
        }
    }

    #[test]
    fn only_and_skip_choose_the_steps() {
        assert!(args(&[], &[]).wants(Step::Fmt));
        assert!(!args(&[], &[Step::Fmt]).wants(Step::Fmt));
        assert!(args(&[Step::Fmt], &[]).wants(Step::Fmt));
        assert!(!args(&[Step::Fmt], &[]).wants(Step::Tests));
        assert!(!args(&[Step::Fmt], &[Step::Fmt]).wants(Step::Fmt));
    }

    #[test]
    fn a_step_of_the_other_command_is_refused_with_its_command() {
        let failure = Gate::Test.run(&args(&[Step::Clippy], &[])).unwrap_err();
        assert_eq!(failure.0, "clippy is a step of `cargo xtask check`");
    }

    #[test]
    fn a_failure_names_the_step_and_how_to_repeat_it() {
        let failure = Failure("`x` failed".to_owned());
        let text = Gate::Check.explain(Step::Docs, &failure).0;
        assert!(text.contains("step docs failed: `x` failed"), "{text}");
        assert!(text.contains("cargo xtask check --only docs"), "{text}");
    }

    #[test]
    fn every_step_is_in_one_command_says_what_it_is_about_and_has_something_to_do() {
        for step in Step::value_variants() {
            let gates = [Gate::Test, Gate::Check];
            let in_gates = gates.iter().filter(|gate| gate.steps().contains(step));
            assert_eq!(in_gates.count(), 1, "{step:?}");
            assert!(!step.about().is_empty(), "{step:?}");
            let own_code = [Step::Install, Step::Tests, Step::OldestRust, Step::Deny];
            assert_eq!(step.calls().is_empty(), own_code.contains(step), "{step:?}");
        }
    }
}
