//! `cargo xtask test`: every step in order, with its commands and durations, and a table at the
//! end.

use std::time::{Duration, Instant};

use clap::ValueEnum;

use crate::call::{Call, Failure};
use crate::install;
use crate::oldest;
use crate::step::Step;
use crate::table::Table;

/// What to test.
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
}

/// How a step went.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// As it should.
    Passed,
    /// It could not be done here, for this reason, and that is no failure.
    Skipped(String),
}

/// Runs the steps until one fails.
pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let mut table = Table::default();
    let mut failed = None;
    for step in Step::value_variants().iter().copied() {
        let name = step.name();
        if failed.is_some() {
            table.add(&name, "not run", Duration::ZERO);
        } else if args.wants(step) {
            let started = Instant::now();
            let result = announce_and_run(step);
            let verdict = describe(&result);
            println!(
                "  {name}: {verdict} after {:.1} s",
                started.elapsed().as_secs_f64()
            );
            table.add(&name, verdict, started.elapsed());
            failed = result.err().map(|failure| (step, failure));
        } else {
            table.add(&name, "left out", Duration::ZERO);
        }
    }
    table.print();
    failed.map_or(Ok(()), |(step, failure)| Err(explain(step, &failure)))
}

fn announce_and_run(step: Step) -> Result<Outcome, Failure> {
    println!("\n== {}: {}", step.name(), step.about());
    match step {
        Step::Install => install::run(),
        Step::OldestRusqlite => oldest::run(),
        Step::Deny => deny(),
        _ => {
            for call in step.calls() {
                match step {
                    Step::Tests | Step::DocTests => call.run_tests()?,
                    _ => call.run()?,
                }
            }
            Ok(Outcome::Passed)
        }
    }
}

fn deny() -> Result<Outcome, Failure> {
    if !Call::new("cargo deny --version").succeeds() {
        let how = "cargo-deny is not installed; `cargo install --locked cargo-deny` installs it";
        return Ok(Outcome::Skipped(how.to_owned()));
    }
    let settled = "bans licenses sources";
    Call::new(&format!(
        "cargo deny --locked check --hide-inclusion-graph {settled}"
    ))
    .run()?;
    if !Call::new("cargo deny fetch db").succeeds() {
        println!("  advisories: skipped, the database of advisories cannot be fetched from here");
        return Ok(Outcome::Passed);
    }
    Call::new("cargo deny --locked check --hide-inclusion-graph advisories").run()?;
    Ok(Outcome::Passed)
}

fn describe(result: &Result<Outcome, Failure>) -> String {
    match result {
        Ok(Outcome::Passed) => "passed".to_owned(),
        Ok(Outcome::Skipped(why)) => format!("skipped ({why})"),
        Err(_) => "FAILED".to_owned(),
    }
}

fn explain(step: Step, failure: &Failure) -> Failure {
    let name = step.name();
    Failure(format!(
        "step {name} failed: {failure}\nto repeat it: cargo xtask test --only {name}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_and_skip_choose_the_steps() {
        let args = |only: &[Step], skip: &[Step]| Args {
            only: only.to_vec(),
            skip: skip.to_vec(),
        };
        assert!(args(&[], &[]).wants(Step::Fmt));
        assert!(!args(&[], &[Step::Fmt]).wants(Step::Fmt));
        assert!(args(&[Step::Fmt], &[]).wants(Step::Fmt));
        assert!(!args(&[Step::Fmt], &[]).wants(Step::Clippy));
        assert!(!args(&[Step::Fmt], &[Step::Fmt]).wants(Step::Fmt));
    }

    #[test]
    fn a_failure_names_the_step_and_how_to_repeat_it() {
        let text = explain(Step::DocTests, &Failure("`x` failed".to_owned())).0;
        assert!(text.contains("step doc-tests failed: `x` failed"), "{text}");
        assert!(text.contains("cargo xtask test --only doc-tests"), "{text}");
    }

    #[test]
    fn every_step_says_what_it_is_about_and_has_something_to_do() {
        for step in Step::value_variants() {
            assert!(!step.about().is_empty(), "{step:?}");
            let own_code = matches!(step, Step::Install | Step::OldestRusqlite | Step::Deny);
            assert_eq!(step.calls().is_empty(), own_code, "{step:?}");
        }
    }
}
