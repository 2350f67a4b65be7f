//! A run: real processes on a real store, faults from a seed, and the checker's verdict at the end.

#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a run shows its progress, and its processes answer through their output"
)]

use std::path::PathBuf;
use std::process::ExitCode;

use clap::ValueEnum;

use crate::fault::Kind;

mod child;
mod chore;
mod driver;
mod failure;
mod finish;
mod part;
mod process;
mod server;
mod sink;
mod stage;
mod submitter;
mod worker;

pub use child::play;
pub(crate) use chore::Chore;
pub(crate) use failure::{Failure, Result, failure};
pub(crate) use part::own_type;
pub(crate) use process::{Process, send};
pub(crate) use server::Server;
pub(crate) use stage::Stage;

/// A store, as a run uses it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum StoreKind {
    /// A file that is synced before each answer.
    Sqlite,
    /// redis-server that syncs before each answer.
    Redis,
    /// redis-server that syncs every second; what a SIGKILL costs is a rollback.
    RedisEverysec,
}

impl StoreKind {
    /// Whether it has a server.
    #[must_use]
    pub fn is_redis(self) -> bool {
        self != Self::Sqlite
    }
}

/// What to run.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// How long faults are injected; at least until each kind has been once.
    #[arg(long, default_value_t = 60)]
    pub seconds: u64,
    /// All choices depend on it; when things happen does not.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Where tasks are kept.
    #[arg(long, value_enum, default_value = "sqlite")]
    pub store: StoreKind,
    /// At least so many tasks are sent, at an even pace.
    #[arg(long, default_value_t = 0)]
    pub tasks: u64,
    /// Only this kind of fault; may be given several times. Without it, all that fit the store.
    #[arg(long = "fault", value_enum)]
    pub faults: Vec<Kind>,
    /// Worker processes.
    #[arg(long, default_value_t = 3)]
    pub workers: u32,
    /// Submitter processes.
    #[arg(long, default_value_t = 2)]
    pub submitters: u32,
    /// How long locks last, in milliseconds.
    #[arg(long, default_value_t = 2_000)]
    pub lock_ms: u64,
    /// Where the record is written; without it, a new temporary folder, kept only when the run fails.
    #[arg(long)]
    pub folder: Option<PathBuf>,
}

/// Runs it. Exit code 0: every promise held; 1: one was broken; 2: the run proves nothing.
#[must_use]
pub fn run(args: &Args) -> ExitCode {
    driver::run(args).unwrap_or_else(|failure| {
        eprintln!("the run could not be finished: {failure}");
        ExitCode::from(2)
    })
}
