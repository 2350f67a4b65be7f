//! The command line of the simulation.

use std::io::{self, Write};

use super::bug::Bug;
use super::run::{Plan, run};
use super::scope::exhaust;

/// Simulates lifecycles under faults, and judges them.
///
/// Exit code 0: every promise held, and every fault and recovery happened; 1: a promise was broken; 2:
/// the run proves nothing, as something never happened.
#[derive(Clone, Copy, Debug, clap::Args)]
pub struct SimArgs {
    /// At least so many tasks live and end.
    #[arg(long, default_value_t = 3_000_000)]
    lifecycles: u64,
    /// Repeats a run.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Plants a bug, which must be found.
    #[arg(long, value_enum)]
    bug: Option<Bug>,
    /// Instead of a random run, every interleaving of a small scope.
    #[arg(long)]
    exhaust: bool,
}

impl SimArgs {
    /// Runs, prints the report, and returns the exit code.
    ///
    /// # Errors
    /// The report cannot be written.
    pub fn run(self, out: &mut impl Write) -> io::Result<u8> {
        if self.exhaust {
            let exhausted = exhaust(self.bug);
            writeln!(out, "{exhausted}")?;
            return Ok(u8::from(exhausted.finding.is_some()));
        }
        let report = run(Plan {
            lifecycles: self.lifecycles,
            seed: self.seed,
            bug: self.bug,
        });
        writeln!(out, "seed {}: {report}", self.seed)?;
        Ok(match report.broken {
            0 if report.is_good() => 0,
            0 => 2,
            _ => 1,
        })
    }
}
