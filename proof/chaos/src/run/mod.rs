//! A run: real processes on a real store, faults from a seed, and the checker's verdict at the end.

#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a run shows its progress, and its processes answer through their output"
)]

use std::path::PathBuf;
use std::sync::Arc;

use clap::ValueEnum;

use crate::check::Outcome;
use crate::fault::Kind;

mod application;
mod child;
mod door;
mod driver;
mod effect_log;
mod failure;
mod finish;
mod idle;
mod nodes;
mod part;
mod ping;
mod preload;
mod process;
mod server;
mod stage;
mod submitter;
mod task_body;
mod watched;
mod worker;
mod workload;

pub use application::{AnyError, Application, Place, Sent};
pub(crate) use driver::processors;
pub(crate) use failure::{Failure, Result, failure};
pub(crate) use finish::{Ending, judge};
pub(crate) use nodes::REPLICAS;
pub use nodes::SHARDS;
pub(crate) use part::{Duty, NAMESPACE, Part, options, own_type};
pub(crate) use preload::{Preload, build_library};
pub(crate) use process::{Process, send};
pub(crate) use server::Server;
pub(crate) use stage::{Open, Stage};
pub(crate) use task_body::{Message, TaskBody};
pub use workload::Workload;

/// A store, as a run uses it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum StoreKind {
    /// A file that is synced before each answer.
    Sqlite,
    /// redis-server that syncs before each answer.
    Redis,
    /// redis-server that syncs every second; what a SIGKILL costs is a rollback.
    RedisEverysec,
    /// A PostgreSQL server that syncs before each answer.
    Postgres,
    /// A master with two replicas, both of which confirm each write, and three sentinels.
    RedisSentinel,
    /// A cluster of three masters, each with two replicas that confirm each write.
    RedisCluster,
    /// Two stores as one: tasks that are due later wait in a PostgreSQL server, the others in a
    /// redis-server; both sync before each answer.
    Tiered,
    /// A delayq-server, on a redis-server that syncs before each answer.
    Server,
}

impl StoreKind {
    /// Whether it is one redis-server.
    #[must_use]
    pub fn is_redis(self) -> bool {
        matches!(self, Self::Redis | Self::RedisEverysec)
    }

    /// Whether it is several, of which replicas confirm each write.
    #[must_use]
    pub fn is_replicated(self) -> bool {
        matches!(self, Self::RedisSentinel | Self::RedisCluster)
    }
}

/// Clocks that are further apart than [`CLOCK_GUARD`](delayq_core::store::CLOCK_GUARD) are a fault
/// of their own.
const MOST_SKEW_MS: u64 = 500;

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
    /// How long locks last, in milliseconds; a second at least.
    #[arg(long, default_value_t = 2_000, value_parser = clap::value_parser!(u64).range(1_000..))]
    pub lock_ms: u64,
    /// How far the clock of every other server is ahead, in milliseconds: of a store that has
    /// several.
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u64).range(..=MOST_SKEW_MS))]
    pub skew_ms: u64,
    /// Where the record is written; without it, a new temporary folder, kept only when the run
    /// fails.
    #[arg(long)]
    pub folder: Option<PathBuf>,
}

impl Default for Args {
    /// Those of an empty command line.
    fn default() -> Self {
        #[derive(clap::Parser)]
        struct Empty {
            #[command(flatten)]
            args: Args,
        }
        let program: [&str; 1] = ["delayq-chaos"];
        <Empty as clap::Parser>::parse_from(program).args
    }
}

/// Starts processes that work, and send tasks, as `application` says; does faults to them; and
/// holds what they recorded against the promises. Shows the verdict.
///
/// The processes are this very program, started again with the same arguments. In them this
/// function plays its part, and does not return: whatever `main` does before it, each process does,
/// too. To be called outside any runtime, from the main thread, for the processes end with it.
pub fn run(application: impl Application, args: &Args) -> Outcome {
    let application = play(application);
    driver::run(&application, args).unwrap_or_else(|failure| {
        eprintln!("the run could not be finished: {failure}");
        Outcome::Invalid
    })
}

/// Plays a part, without a return, if this is a process of a run.
pub(crate) fn play<A: Application>(application: A) -> A {
    if let Some(part) = std::env::var_os(child::PART) {
        let application = Arc::new(application);
        std::process::exit(child::play(application, &part.to_string_lossy()));
    }
    application
}
