//! Commands of a developer: `cargo xtask test`, `check`, `soak`, `bench` and more.

#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "printing is what this program is for"
)]

mod bench;
mod beside;
mod call;
mod chaos;
mod clients;
mod dist;
mod doors;
mod failures;
mod gate;
mod install;
mod left_out;
mod oldest;
mod pictures;
// One list of folders for this program and the tests.
#[path = "../../tests/src/program_folders.rs"]
mod program_folders;
mod programs;
mod proof;
mod publish;
mod schemathesis;
mod server;
mod soak;
mod step;
mod table;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::gate::Gate;

/// The commands of a developer of delayq.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Install what the tests need, then run all tests, on real stores.
    Test(gate::Args),
    /// Lints, documentation, sets of features, the oldest Rust and licences.
    Check(gate::Args),
    /// The long rest: faults, power losses and real time, with the seeds of record.
    Soak(soak::Args),
    /// Measure delayq, and write the figures to docs/benchmarks.md.
    Bench(bench::Args),
    /// Measure delayq-server through its doors: `--case TEXT`, `--sqlite`, `--tasks N`.
    Doors(bench::Args),
    /// A rolling deploy: the program of an earlier revision beside that of this tree on one store.
    Beside(beside::Args),
    /// Do faults to real processes on a real store, and check every promise.
    Chaos(chaos::Args),
    /// Make a release in target/dist: archive, Debian package, image, chart, checksums.
    Dist(dist::Args),
    /// Check that every public crate can be published, in order; `--dry-run` alone publishes none.
    Publish(publish::Args),
    /// Render docs/ as a book into target/book, and check its links.
    Book,
    /// Take the pictures of the guide from the running page.
    Pictures,
    /// Requests by openapi.json against the running server, valid ones and broken ones.
    Schemathesis(schemathesis::Args),
    /// Kill an order service again and again, and look at its books: `--kills N --seed S`.
    Orders(chaos::Args),
    /// Take the power away from a real store, again and again: `--cycles N --seed S --store X`.
    Power(chaos::Args),
}

fn main() -> ExitCode {
    let result = match Cli::parse().command {
        Command::Test(args) => Gate::Test.run(&args),
        Command::Check(args) => Gate::Check.run(&args),
        Command::Soak(args) => soak::run(&args),
        Command::Bench(args) => bench::run(&args),
        Command::Doors(args) => doors::run(&args),
        Command::Beside(args) => beside::run(&args),
        Command::Chaos(args) => chaos::run(&args),
        Command::Dist(args) => dist::run(&args),
        Command::Publish(args) => publish::run(&args),
        Command::Book => proof::book().run(),
        Command::Pictures => pictures::run(),
        Command::Schemathesis(args) => schemathesis::run(&args),
        Command::Orders(args) => chaos::orders(&args),
        Command::Power(args) => chaos::power(&args),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("\n{failure}");
            ExitCode::FAILURE
        }
    }
}
