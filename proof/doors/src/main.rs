//! The figures of delayq-server over HTTP: server, Redis and load on the same machine, as a program
//! of another language would use it. `cargo xtask doors` runs it.

#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "printing is what this program is for"
)]
#![allow(clippy::cast_precision_loss, reason = "counts are far below 2^52")]

mod beanstalk;
mod connection;
mod create;
mod echo;
mod fronts;
mod idle;
mod late;
mod pull;
mod push;
// One server fixture for tests and benchmark, without the rest of the tests' dependencies. It has
// a second file, watched_process.rs.
#[allow(
    dead_code,
    unreachable_pub,
    reason = "the tests use more of the fixture than the benchmark"
)]
#[path = "../../../tests/src/redis_server.rs"]
mod redis_server;
mod server;
#[allow(
    dead_code,
    unreachable_pub,
    reason = "the tests use more of the fixture than the benchmark"
)]
#[path = "../../../tests/src/watched_process.rs"]
mod watched_process;
mod work;

use std::path::PathBuf;
use std::process::ExitCode;

use crate::redis_server::{Persistence, RedisServer};
use crate::server::Server;
use clap::Parser;

/// Whatever ends the benchmark, for people.
type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Measures delayq-server through its doors.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask doors", bin_name = "cargo xtask doors")]
struct Args {
    /// The server, built optimised.
    #[arg(long, value_name = "FILE")]
    server: PathBuf,
    /// On SQLite instead of Redis.
    #[arg(long)]
    sqlite: bool,
    /// Only the cases whose name contains this text.
    #[arg(long, value_name = "TEXT", default_value = "")]
    case: String,
    /// Tasks of a case.
    #[arg(long, default_value_t = 100_000)]
    tasks: usize,
}

#[tokio::main]
async fn main() -> ExitCode {
    match run(Args::parse()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("error: {failure}");
            ExitCode::FAILURE
        }
    }
}

async fn run(args: Args) -> Result<(), Failure> {
    let folder = tempfile::tempdir()?;
    let redis = (!args.sqlite).then(|| RedisServer::start(Persistence::EverySecond, &[]));
    let store = match &redis {
        Some(redis) => redis.url(),
        None => format!("sqlite:{}", folder.path().join("doors.sqlite").display()),
    };
    let server = Server::start(&std::path::absolute(&args.server)?, &store, folder.path())?;
    let wanted = |name: &str| name.contains(&args.case);
    let tasks = args.tasks;
    let line = |name: &str, figure: &str| println!("{name:<44} {figure}");
    if wanted("create") {
        let rate = create::single(&server, 64, tasks).await?;
        line("create, 64 connections", &format!("{rate:.0}/s"));
    }
    if wanted("bulk") {
        let rate = create::bulk(&server, 4, 4 * tasks).await?;
        line("bulk create, 4 streams", &format!("{rate:.0}/s"));
    }
    for (limit, clients) in [(1, 64), (128, 8)] {
        let name = format!("pull and done, {clients} clients, batches of {limit}");
        if wanted(&name) {
            let rate = pull::drain(&server, clients, limit, tasks).await?;
            line(&name, &format!("{rate:.0}/s"));
        }
    }
    if wanted("work, 4 streams") {
        let rate = work::drain(&server, 4, tasks).await?;
        line("work, 4 streams of gRPC", &format!("{rate:.0}/s"));
    }
    if wanted("push") {
        let rate = push::drain(&server, tasks).await?;
        line("push over HTTP to an echo", &format!("{rate:.0}/s"));
    }
    if wanted("lateness of pull") {
        let late = late::run(&server, 500, tasks.min(10_000)).await?;
        line("lateness of pull at 500/s", &late);
    }
    if wanted("lateness of push") {
        let late = push::late(&server, 500, tasks.min(10_000)).await?;
        line("lateness of push at 500/s", &late);
    }
    if wanted("apis of lmstfy and Grape") {
        for (name, rate) in fronts::run(&server, tasks).await? {
            line(&name, &format!("{rate:.0}/s"));
        }
    }
    if wanted("puts of beanstalkd") {
        let program = std::path::absolute(&args.server)?;
        for (name, figure) in beanstalk::puts(&program, folder.path(), tasks).await? {
            line(&name, &figure);
        }
    }
    if wanted("idle") {
        let idle = idle::run(&server, 10_000).await?;
        line("10,000 idle long waits", &idle);
    }
    Ok(())
}
