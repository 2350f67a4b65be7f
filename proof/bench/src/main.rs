//! The figures of delayq, through its public interface, each beside that of a bare script which
//! does the least that any delayed queue has to do. `cargo xtask bench` runs it.

#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "printing is what this program is for"
)]

mod backlog;
mod bare_postgres;
mod bare_redis;
mod bare_sqlite;
mod case;
mod child;
mod curve;
mod document;
mod eyes;
mod far;
mod figure;
mod herd;
mod idle;
mod latency;
mod lateness;
mod load;
mod machine;
mod memory;
mod meter;
mod peers;
mod plateau;
mod plot;
mod postgres;
// The server fixtures of the tests, without the rest of the tests' dependencies, and the files that
// they need.
#[allow(
    dead_code,
    unreachable_pub,
    reason = "the tests use more of the fixture than the benchmark"
)]
#[path = "../../../tests/src/postgres_server.rs"]
mod postgres_server;
mod process;
#[allow(
    dead_code,
    unreachable_pub,
    reason = "the tests use more of the fixture than the benchmark"
)]
#[path = "../../../tests/src/program_folders.rs"]
mod program_folders;
#[allow(
    dead_code,
    unreachable_pub,
    reason = "the tests use more of the fixture than the benchmark"
)]
#[path = "../../../tests/src/redis_server.rs"]
mod redis_server;
mod reopen;
mod report;
mod sender;
mod stage;
mod throughput;
#[allow(
    dead_code,
    unreachable_pub,
    reason = "the tests use more of the fixture than the benchmark"
)]
#[path = "../../../tests/src/unprivileged.rs"]
mod unprivileged;
mod wall;
#[allow(
    dead_code,
    unreachable_pub,
    reason = "the tests use more of the fixture than the benchmark"
)]
#[path = "../../../tests/src/watched_process.rs"]
mod watched_process;
mod worker;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, ValueEnum};

use crate::child::Role;
use crate::curve::{Curve, Extent};
use crate::load::Size;
use crate::machine::Machine;
use crate::peers::{Field, Wanted};
use crate::report::Report;
use crate::stage::{Place, Stage};

/// Whatever ends the benchmark, for people.
type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Measures delayq, and writes the figures to docs/benchmarks.md (a full run of all stores only).
#[derive(Debug, Parser)]
#[command(name = "cargo xtask bench", bin_name = "cargo xtask bench")]
struct Args {
    /// Fewer tasks and rounds, to see that all works. The documents stay as they are.
    #[arg(long)]
    quick: bool,
    /// Only this store.
    #[arg(long, value_enum, default_value_t = Stores::All)]
    store: Stores,
    /// Only the cases whose name contains this text.
    #[arg(long, value_name = "TEXT")]
    case: Option<String>,
    /// Write all measurements to this file, as JSON.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Measure how figures change with what grows, instead of the cases; a full run writes them to
    /// the document.
    #[arg(long)]
    curves: bool,
    /// Only this curve.
    #[arg(long, value_name = "NAME", requires = "curves")]
    curve: Option<Curve>,
    /// A process of a curve: serves what these orders say.
    #[arg(long, hide = true)]
    curve_instance: Option<String>,
    /// Measure what looking costs instead: each view of the web page and of the command line with a
    /// million tasks, and a drain with pages open. A full run of all stores writes its part of
    /// docs/benchmarks.md.
    #[arg(long, conflicts_with_all = ["case", "curves", "peers", "json"])]
    eyes: bool,
    /// Measure delayq beside other queues instead, all of them or those whose name contains this
    /// text. A full run writes the part of docs/benchmarks.md about them. Those of PostgreSQL are
    /// measured with `--store postgres`, which without `--case` ends with them.
    #[arg(long, value_name = "NAME", num_args = 0..=1, default_missing_value = "")]
    peers: Option<String>,
    /// Measure tasks of the far future instead: the memory of ten million in Redis, and a cold
    /// store. A full run writes its part of docs/benchmarks.md.
    #[arg(long, conflicts_with_all = ["case", "curves", "peers", "json", "eyes", "store"])]
    far: bool,
    /// Instead of measuring: let so many tasks, ten million by default and 300,000 at most with
    /// `--quick`, pass through a small set of waiting ones in PostgreSQL; fail when the table
    /// grows.
    #[arg(long, value_name = "TASKS", num_args = 0..=1, default_missing_value = "10000000",
        conflicts_with_all = ["case", "curves", "peers", "json", "eyes", "store"])]
    plateau: Option<usize>,
    /// Instead of measuring: be the other process of a case, as this JSON says.
    #[arg(long, hide = true)]
    role: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Stores {
    Redis,
    Sqlite,
    Postgres,
    Memory,
    /// All but PostgreSQL, which has a part of the document of its own.
    All,
}

impl Stores {
    fn field(self) -> Field {
        match self {
            Self::Postgres => Field::Postgres,
            _ => Field::Redis,
        }
    }

    fn places(self) -> Vec<Place> {
        match self {
            Self::Redis => vec![Place::Redis],
            Self::Sqlite => vec![Place::Sqlite],
            Self::Postgres => vec![Place::Postgres],
            Self::Memory => vec![Place::Memory],
            Self::All => vec![Place::Redis, Place::Sqlite, Place::Memory],
        }
    }
}

#[tokio::main]
async fn main() -> ExitCode {
    match run(Args::parse()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("the benchmark failed: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn run(args: Args) -> Result<(), Failure> {
    if let Some(role) = &args.role {
        return serde_json::from_str::<Role>(role)?.play().await;
    }
    if let Some(orders) = &args.curve_instance {
        return curve::serve(orders).await;
    }
    if let Some(tasks) = args.plateau {
        let most = if args.quick { plateau::QUICK } else { tasks };
        return plateau::run(tasks.min(most)).await;
    }
    if args.curves {
        let extent = if args.quick {
            Extent::QUICK
        } else {
            Extent::FULL
        };
        return curve::run(args.curve, &extent, !args.quick, args.json.as_deref()).await;
    }
    if args.eyes {
        let extent = if args.quick {
            eyes::Extent::QUICK
        } else {
            eyes::Extent::FULL
        };
        let is_documented = !args.quick && args.store == Stores::All;
        return eyes::run(args.store.places(), &extent, is_documented).await;
    }
    if args.far {
        let extent = if args.quick {
            far::Extent::QUICK
        } else {
            far::Extent::FULL
        };
        return far::run(&extent, !args.quick).await;
    }
    if let Some(peer) = &args.peers {
        return peers::run(&Wanted {
            field: args.store.field(),
            is_quick: args.quick,
            peer,
            case: args.case.as_deref().unwrap_or(""),
            json: args.json.as_deref(),
        })
        .await;
    }
    cases(&args).await
}

/// Measures the cases, and writes them down.
async fn cases(args: &Args) -> Result<(), Failure> {
    let size = match (args.quick, args.store) {
        (true, _) => Size::QUICK,
        (false, Stores::Postgres) => Size::POSTGRES,
        (false, _) => Size::FULL,
    };
    let wanted = args.case.as_deref().unwrap_or("");
    let mut report = Report::new(Machine::look()?, size);
    println!("{}", report.machine);
    for place in args.store.places() {
        let stage = Stage::set(place).await?;
        report.stores.push(stage.version.clone());
        println!("\n{}", stage.version);
        for case in case::of(place)
            .into_iter()
            .filter(|case| case.name().contains(wanted))
        {
            println!("  {} ..", case.name());
            for outcome in case.measure(&stage, &size).await? {
                report.add(outcome);
            }
        }
    }
    println!("\n{}", report.tables());
    if let Some(file) = &args.json {
        std::fs::write(file, report.json()?)?;
        println!("all measurements: {}", file.display());
    }
    if args.case.is_some() {
        return Ok(());
    }
    match args.store {
        Stores::All if !args.quick => document::write(&report),
        Stores::Postgres => with_peers(&report, args.quick).await,
        _ => Ok(()),
    }
}

/// Measures the peers of PostgreSQL in the same run.
async fn with_peers(report: &Report, is_quick: bool) -> Result<(), Failure> {
    let wanted = Wanted {
        field: Field::Postgres,
        is_quick,
        peer: "",
        case: "",
        json: None,
    };
    let head = "The peers, in the same run, each on a server of its own with the same settings.";
    let section = peers::measured(&wanted, head).await?;
    println!("\n{section}");
    if is_quick {
        return Ok(());
    }
    document::write_postgres(report, &section)
}
