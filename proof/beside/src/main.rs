//! Drives a rolling deploy and its rollback: the program of an earlier release and that of this one
//! on one store, see `cargo xtask beside`.

#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "printing is what this program is for"
)]

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use clap::{Parser, ValueEnum};
use delayq_tests::redis_server::{Persistence, RedisServer};

mod act;
mod failure;
mod fleet;
mod http;
mod instance;
mod judge;
mod ledger;
mod load;
mod operate;
mod scene;
mod servers;

use failure::Result;
use scene::Scene;

/// Runs two releases beside each other.
#[derive(Debug, Parser)]
struct Args {
    /// The program, built against the earlier release.
    #[arg(long)]
    earlier: PathBuf,
    /// The program, built against this one.
    #[arg(long)]
    present: PathBuf,
    /// The server of the earlier release.
    #[arg(long)]
    earlier_server: PathBuf,
    /// The server of this one.
    #[arg(long)]
    present_server: PathBuf,
    /// One part only: a store with the plugin, or the servers.
    #[arg(long)]
    store: Option<Part>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Part {
    Sqlite,
    Redis,
    /// The servers, on Redis.
    Servers,
}

fn main() -> ExitCode {
    let args = Args::parse();
    let mut code = ExitCode::SUCCESS;
    for store in [Part::Sqlite, Part::Redis, Part::Servers] {
        if args.store.is_some_and(|only| only != store) {
            continue;
        }
        let begin = Instant::now();
        match run(store, &args) {
            Ok(()) => println!("{store:?}: held, {:.1?}", begin.elapsed()),
            Err(failure) => {
                eprintln!("{store:?}: FAILED: {failure}");
                code = ExitCode::FAILURE;
            }
        }
    }
    code
}

fn run(store: Part, args: &Args) -> Result<()> {
    let folder = tempfile::Builder::new()
        .prefix("delayq-beside-")
        .tempdir()?;
    // It lives until the scene has ended.
    let server = (store != Part::Sqlite).then(|| RedisServer::start(Persistence::EverySecond, &[]));
    let url = match &server {
        Some(server) => server.url(),
        None => format!("sqlite:{}", folder.path().join("tasks.sqlite").display()),
    };
    println!("{store:?}: {url}");
    let result = if store == Part::Servers {
        let programs = [&args.earlier_server, &args.present_server];
        servers::play(&url, folder.path(), programs)
    } else {
        let mut scene = Scene::new(url, folder.path(), [&args.earlier, &args.present]);
        act::play(&mut scene)
    };
    if result.is_err() {
        let folder = folder.keep();
        eprintln!("left for a look: {}", folder.display());
    }
    result
}
