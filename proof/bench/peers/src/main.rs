//! One case of one peer, once: prints what came out as one line of JSON. `cargo xtask bench
//! --peers` runs it, delayq too, so that all of them are measured by the same program.

#![allow(clippy::print_stdout, reason = "printing is what this program is for")]

mod apalis_redis;
mod beanstalkd;
mod board;
mod bullmq_official;
mod case;
mod delayq;
mod lateness;
mod oxana;
mod peer;
mod rusty_sidekiq;
mod server;
mod task;

use std::sync::Arc;
use std::time::Duration;

use clap::{Parser, ValueEnum};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use crate::peer::Peer;
use crate::server::Server;

/// Whatever ends a case, for people.
type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Does one case once.
#[derive(Debug, Parser)]
struct Args {
    #[arg(value_enum)]
    peer: Name,
    #[arg(value_enum)]
    case: Case,
    /// Where its server listens: redis://127.0.0.1:PORT, beanstalkd://127.0.0.1:PORT,
    /// postgres://USER@127.0.0.1:PORT/DATABASE.
    #[arg(long)]
    url: String,
    /// The server's process.
    #[arg(long)]
    pid: u32,
    /// Tasks.
    #[arg(long)]
    count: usize,
    /// Tasks a second, of the case lateness.
    #[arg(long, default_value_t = 0)]
    rate: u32,
    /// How many seconds tasks may keep everybody waiting.
    #[arg(long, default_value_t = 60)]
    limit: u64,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Name {
    Delayq,
    BullmqOfficial,
    ApalisRedis,
    RustySidekiq,
    Oxana,
    Beanstalkd,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Case {
    /// Make what the peer needs on its server, and nothing else.
    Prepare,
    /// As many in a call as the peer takes, up to 1,000.
    SubmitInBulk,
    /// One in a call, 64 calls at a time.
    SubmitSingly,
    /// Run and settle what is due.
    Drain,
    /// How late tasks start.
    Lateness,
    /// Bytes a task.
    Memory,
    /// Many due at once.
    Herd,
}

fn main() -> Result<(), Failure> {
    let args = Args::parse();
    let runtime = Runtime::new()?;
    let outcome = match runtime.block_on(run(&args)) {
        Ok(outcome) => outcome,
        Err(failure) => json!({ "failed": failure.to_string() }),
    };
    println!("{outcome}");
    // Workers run until the program ends, which is now.
    runtime.shutdown_background();
    Ok(())
}

async fn run(args: &Args) -> Result<Value, Failure> {
    let peer = open(args).await?;
    let limit = Duration::from_secs(args.limit);
    match args.case {
        Case::Prepare => Ok(json!({ "rate": 0 })),
        Case::SubmitInBulk => case::submit_in_bulk(peer, args.count).await,
        Case::SubmitSingly => case::submit_singly(peer, args.count).await,
        Case::Drain => case::drain(peer, args.count, limit).await,
        Case::Lateness => lateness::measure(peer, args.rate, args.count, limit).await,
        Case::Memory => case::memory(peer, &Server::new(&args.url, args.pid), args.count).await,
        Case::Herd => lateness::herd(peer, args.count, limit).await,
    }
}

async fn open(args: &Args) -> Result<Arc<dyn Peer>, Failure> {
    let url = args.url.as_str();
    Ok(match args.peer {
        Name::Delayq => Arc::new(delayq::Delayq::open(url).await?),
        Name::BullmqOfficial => Arc::new(bullmq_official::BullmqOfficial::open(url).await?),
        Name::ApalisRedis => Arc::new(apalis_redis::ApalisRedis::open(url).await?),
        Name::RustySidekiq => Arc::new(rusty_sidekiq::RustySidekiq::open(url).await?),
        Name::Oxana => Arc::new(oxana::Oxana::open(url)?),
        Name::Beanstalkd => Arc::new(beanstalkd::Beanstalkd::open(url).await?),
    })
}
