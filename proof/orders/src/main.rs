//! An order service whose instances are killed at random: each order and its task are born in one
//! transaction, and each payment and the end of its task are written in one. Its own books tell
//! whether every order was paid exactly once. `cargo xtask orders` runs it.

#![allow(clippy::print_stdout, reason = "printing is what this program is for")]

use std::process::ExitCode;

use clap::{Parser, Subcommand};

mod books;
mod clerk;
mod instance;
mod payer;
mod run;

/// Whatever ends the program, for people.
type Failure = Box<dyn std::error::Error + Send + Sync>;

/// The type of the tasks that pay.
const PAY: &str = "order.pay";

/// Kills an order service again and again, and looks at its books.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask orders", bin_name = "cargo xtask orders")]
struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Runs instances on a PostgreSQL server of its own, and kills them.
    Run(run::Args),
    /// Is one instance.
    #[command(hide = true)]
    Instance(instance::Args),
}

#[tokio::main]
async fn main() -> ExitCode {
    let done = match Args::parse().command {
        Command::Run(args) => run::run(&args).await,
        Command::Instance(args) => instance::run(args).await,
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            println!("failed: {failure}");
            ExitCode::FAILURE
        }
    }
}
