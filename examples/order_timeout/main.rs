//! Cancels orders that are not paid in time: a day of a shop, replayed.
//!
//!     cargo run --example order_timeout
//!
//! For every order that is placed, its cancellation is sent for later; the payment cancels the
//! cancellation. Kill it in the middle (`kill -9`) and start it again: it continues where it was.
//! With `DELAYQ_URL=redis://127.0.0.1/` start it in several terminals: they share the work.

#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "an example talks to a person"
)]

mod args;
mod day;
mod event;
mod lines;
mod outage;
mod replay;
mod shop;

use std::error::Error;
use std::sync::Arc;

use delayq_plugin::store::StoreOptions;
use delayq_plugin::{DelayQueuePlugin, TaskSubmitService, days, open_store, seconds};
use tracing_subscriber::filter::Targets;
use tracing_subscriber::prelude::*;

use crate::args::Args;
use crate::event::Event;
use crate::lines::Lines;
use crate::replay::Replay;
use crate::shop::Shop;

#[tokio::main]
async fn main() {
    let args = Args::parse();
    log_to_stderr();
    let ended = run(&args).await;
    if let Err(error) = &ended {
        eprintln!("error: {error}");
    }
    // Returning would wait for a read of stdin, which ends with the next line only.
    std::process::exit(if ended.is_ok() { 0 } else { 2 });
}

/// Warnings of delayq, and what `RUST_LOG` asks for, such as `delayq_plugin=debug`.
fn log_to_stderr() {
    let asked = std::env::var("RUST_LOG").unwrap_or_default();
    let targets = Targets::new().with_default(tracing::Level::WARN);
    let targets = asked
        .parse::<Targets>()
        .map_or(targets, |asked| match asked.default_level() {
            Some(_) => asked,
            None => asked.with_default(tracing::Level::WARN),
        });
    let lines = tracing_subscriber::fmt::layer().with_writer(std::io::stderr);
    tracing_subscriber::registry()
        .with(lines)
        .with(targets)
        .init();
}

async fn run(args: &Args) -> Result<(), Box<dyn Error>> {
    let mut lines = Lines::open(&args.events).await?;
    let options = StoreOptions {
        retention: days(1),
        ..StoreOptions::default()
    };
    let tasks = TaskSubmitService::new(open_store(&args.url, options).await?);
    let Some(first) = lines.peek().await?.map(Event::time) else {
        println!("{}", lines.without_event()?);
        return Ok(());
    };
    let mut replay = Replay::new(tasks, Shop::default());
    let day = replay.catch_up(&mut lines, first, args.speed).await?;
    let plugin = DelayQueuePlugin::builder()
        .store(Arc::clone(replay.tasks.store()))
        .component(replay.shop.clone())
        .expect_types(["order.cancel", "shop.close"])
        .start()
        .await?;
    let played = tokio::select! {
        played = replay.play(&day, &mut lines) => played,
        signal = tokio::signal::ctrl_c() => {
            signal?;
            println!("interrupted; start it again and the day goes on");
            Ok(())
        }
    };
    plugin.shutdown(seconds(5)).await;
    replay.tasks.close().await;
    played
}
