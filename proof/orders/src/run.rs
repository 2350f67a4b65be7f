//! The run: starts instances, kills them, and looks at the books.

use std::process::Command;
use std::time::Duration;

use delayq_plugin::millis;
use delayq_tests::postgres_server::PostgresServer;
use delayq_tests::watched_process::{KILL, WatchedProcess, new_folder};
use fastrand::Rng;

use crate::{Failure, books, instance};

/// Instances that run beside each other.
const INSTANCES: usize = 3;
/// How long the last instance may take for what is open at the end.
const PATIENCE: Duration = Duration::from_mins(2);
/// Settings of the server. It has room for the sessions of killed instances.
const SETTINGS: [&str; 1] = ["max_connections=300"];

/// The arguments of a run.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// How many instances are killed. After each hundredth one the server is killed, too.
    #[arg(long, default_value_t = 1_000)]
    kills: u64,
    /// The seed of the dice; the run also depends on the machine.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// Starts one instance, and returns once it works.
fn start(server: &PostgresServer, number: u64, takes_orders: bool) -> WatchedProcess {
    let program = std::env::current_exe().expect("this program has a name");
    let mut command = Command::new(program);
    let number = number.to_string();
    command.args(["instance", "--url", &server.url(), "--number", &number]);
    if !takes_orders {
        command.arg("--no-orders");
    }
    let folder = new_folder("delayq-orders-");
    WatchedProcess::start(&command, &folder, instance::UP, KILL)
        .unwrap_or_else(|log| panic!("an instance does not start: {log:#?}"))
}

pub(crate) async fn run(args: &Args) -> Result<(), Failure> {
    let mut server = PostgresServer::start(&SETTINGS);
    server.sql("postgres", books::CREATE);
    let mut dice = Rng::with_seed(args.seed);
    let mut alive: Vec<_> = (0..INSTANCES as u64)
        .map(|number| start(&server, number, true))
        .collect();
    for kill in 1..=args.kills {
        tokio::time::sleep(millis(dice.u64(5..250))).await;
        alive.swap_remove(dice.usize(..alive.len())).kill();
        if kill % 100 == 0 {
            server.restart();
            println!("{kill} kills: {}", books::summary(&server));
        }
        alive.push(start(&server, INSTANCES as u64 + kill, true));
    }
    alive.into_iter().for_each(WatchedProcess::kill);
    let last = start(&server, INSTANCES as u64 + args.kills + 1, false);
    let ended = tokio::time::timeout(PATIENCE, async {
        while server.sql("postgres", books::OPEN) != "0" {
            tokio::time::sleep(millis(50)).await;
        }
    });
    let is_ended = ended.await.is_ok();
    last.kill();
    println!("{} kills: {}", args.kills, books::summary(&server));
    let mut mistakes = books::mistakes(&server);
    if !is_ended {
        let open = server.sql("postgres", books::OPEN);
        mistakes.push(format!("{open} tasks that do not end"));
    }
    if mistakes.is_empty() {
        println!("every order was paid exactly once, or cancelled");
        return Ok(());
    }
    Err(mistakes.join("; ").into())
}
