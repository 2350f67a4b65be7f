//! `cargo xtask chaos`: runs the package in `chaos/`, optimised, with the arguments given.

use crate::call::{Call, Failure};

/// The arguments are those of a run: `cargo xtask chaos --help` shows them.
#[derive(Debug, clap::Args)]
#[command(disable_help_flag = true)]
pub(crate) struct Args {
    /// Passed on.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<String>,
}

/// Builds it, and runs real processes on a real store, with faults.
pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let chaos = Call::new("cargo run --locked --release --package delayq-chaos -- run");
    args.arguments.iter().fold(chaos, Call::word).run()
}
