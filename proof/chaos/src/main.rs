//! The command line of delayq-chaos.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::{Parser, Subcommand};
use delayq_chaos::check::{Verdict, check};
use delayq_chaos::history::History;
use delayq_chaos::plot::draw;
use delayq_chaos::run::{Args, SHARDS, StoreKind, Workload, run};

/// Breaks delayq on purpose, and checks its promises against what was recorded.
#[derive(Debug, Parser)]
#[command(name = "delayq-chaos", version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Runs workers and submitters on a real store, does faults to them, and checks the promises.
    Run(Args),
    /// Takes the power away from a store, again and again: what it had not synced is undone, and
    /// the promises are checked.
    Power(delayq_chaos::power::Args),
    /// Checks the recorded files of a run. Exit code 0: every promise held; 1: one was broken; 2:
    /// the run proves nothing (a planned fault never fired, or the record is not whole).
    Check {
        /// The folder with the files.
        folder: PathBuf,
    },
    /// Draws the recorded files of a run: starts a second, and lateness, through the faults.
    Plot {
        /// The folder with the files.
        folder: PathBuf,
        /// The picture.
        #[arg(long)]
        out: PathBuf,
        /// Starts are put together by spans of so many milliseconds.
        #[arg(long, default_value_t = 250)]
        span_ms: u64,
    },
}

fn main() -> ExitCode {
    match Cli::parse().command {
        Command::Run(args) => {
            let shards = match args.store {
                StoreKind::RedisCluster => SHARDS,
                _ => 1,
            };
            let workload = Workload::new(args.lock_ms).shards(shards);
            let workload = match args.store {
                // More than half the tasks wait in the second store.
                StoreKind::Tiered => workload.max_delay_ms(4_000),
                _ => workload,
            };
            run(workload, &args).into()
        }
        Command::Power(args) => delayq_chaos::power::run(&args).into(),
        Command::Check { folder } => match History::read(&folder) {
            Ok(history) => report(&check(&history)),
            Err(error) => fail(&error),
        },
        Command::Plot {
            folder,
            out,
            span_ms,
        } => match plot(&folder, Duration::from_millis(span_ms), &out) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => fail(&*error),
        },
    }
}

fn fail(error: &dyn std::error::Error) -> ExitCode {
    let _gone = writeln!(io::stderr(), "delayq-chaos: {error}");
    ExitCode::from(2)
}

fn plot(folder: &Path, span: Duration, out: &Path) -> Result<(), Box<dyn std::error::Error>> {
    Ok(draw(&History::read(folder)?, span, out)?)
}

fn report(verdict: &Verdict) -> ExitCode {
    // Whoever closed the pipe has seen enough; the exit code stands.
    let _gone = write!(io::stdout(), "{verdict}");
    verdict.outcome().into()
}
