//! One instance: a clerk who takes orders, and a plugin that has them paid.

use delayq_plugin::{Backoff, DelayQueuePlugin, RetryPolicy, WorkerOptions, millis, seconds};

use crate::clerk::Clerk;
use crate::payer::Payer;
use crate::{Failure, PAY};

/// What it prints once it works.
pub(crate) const UP: &str = "the instance is up";

/// The arguments of an instance.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The database.
    #[arg(long)]
    url: String,
    /// Distinguishes its orders and its dice from those of others.
    #[arg(long)]
    number: u64,
    /// Takes no orders.
    #[arg(long)]
    no_orders: bool,
}

/// A lock is short, so that what a killed instance had is soon taken over. Failures are tried
/// again for ever: most of them are made by the run.
const OPTIONS: WorkerOptions = WorkerOptions {
    lock: seconds(1),
    timeout: seconds(30),
    concurrency: 8,
    retry: RetryPolicy {
        max_attempts: u32::MAX,
        backoff: Backoff::Fixed,
        base: millis(20),
        ..RetryPolicy::DEFAULT
    },
    ..WorkerOptions::DEFAULT
};

pub(crate) async fn run(args: Args) -> Result<(), Failure> {
    fastrand::seed(args.number);
    let plugin = DelayQueuePlugin::builder()
        .without_registered_workers()
        .url(&args.url)
        .poll_interval(millis(20))
        .max_lock_expiries(u32::MAX)
        .worker(PAY, OPTIONS, Payer::new(&args.url))
        .start()
        .await?;
    println!("{UP}");
    if !args.no_orders {
        let clerk = Clerk {
            url: args.url,
            tasks: plugin.submit_service(),
            instance: args.number,
        };
        clerk.take_orders().await;
    }
    plugin.run_until_signal().await?;
    Ok(())
}
