//! `cargo xtask chaos` and `cargo xtask power`: run the package in `proof/chaos`, optimised, with
//! the arguments given. `cargo xtask orders` does so with the package in `proof/orders`.

use crate::call::{Call, Failure};
use crate::proof;

/// The arguments are those of a run: `cargo xtask chaos --help` and `cargo xtask power --help` show
/// them.
#[derive(Debug, clap::Args)]
#[command(disable_help_flag = true)]
pub(crate) struct Args {
    /// Passed on.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<String>,
}

/// Builds it, and runs real processes on a real store, with faults.
pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    if args.arguments.iter().any(|word| word == "server") {
        proof::build_server().run()?;
    }
    forward("run", args)
}

/// Builds it, and takes the power away from a real store.
pub(crate) fn power(args: &Args) -> Result<(), Failure> {
    forward("power", args)
}

/// Builds it, and kills an order service on a real PostgreSQL server.
pub(crate) fn orders(args: &Args) -> Result<(), Failure> {
    args.arguments
        .iter()
        .fold(order_service(), Call::word)
        .run()
}

fn forward(command: &str, args: &Args) -> Result<(), Failure> {
    let chaos = program(command);
    args.arguments.iter().fold(chaos, Call::word).run()
}

/// The command line of the order service, optimised, up to its own arguments.
pub(crate) fn order_service() -> Call {
    proof::call("cargo run --locked --release --package delayq-orders -- run")
}

/// The command line of the program, optimised, up to its own arguments.
pub(crate) fn program(command: &str) -> Call {
    proof::call("cargo run --locked --release --package delayq-chaos --").word(command)
}
