//! `cargo xtask bench`: runs the package in `proof/bench`, optimised, with the arguments given.

use crate::call::{Call, Failure};
use crate::proof;

/// The arguments are those of the benchmark: `cargo xtask bench --help` shows them.
#[derive(Debug, clap::Args)]
#[command(disable_help_flag = true)]
pub(crate) struct Args {
    /// Passed on.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<String>,
}

impl Args {
    /// The arguments as they were given.
    pub(crate) fn words(&self) -> &[String] {
        &self.arguments
    }
}

/// Builds and runs the benchmark.
pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    args.arguments.iter().fold(program(), Call::word).run()
}

/// Ten million tasks through a small table of PostgreSQL, which must not grow.
pub(crate) fn plateau() -> Call {
    program().word("--plateau")
}

fn program() -> Call {
    proof::call("cargo run --locked --release --package delayq-bench --")
}
