//! The command line of delayq-chaos.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Breaks delayq on purpose, and checks its promises against what was recorded.
#[derive(Debug, Parser)]
#[command(name = "delayq-chaos", version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Checks the recorded files of a run. Exit code 0: every promise held; 1: one was broken; 2: the
    /// run proves nothing (a planned fault never fired, or the record is not whole).
    Check {
        /// The folder with the files.
        folder: PathBuf,
    },
}

fn main() -> ExitCode {
    let Command::Check { folder: _ } = Cli::parse().command;
    ExitCode::from(2)
}
