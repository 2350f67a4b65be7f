//! Cancels orders that are not paid in time: a day of a shop, replayed.
//!
//!     cargo run --example order_timeout
//!
//! For every order that is placed, its cancellation is sent for later; the payment cancels the
//! cancellation. Kill it in the middle (`kill -9`) and start it again: it continues where it was. With
//! `DELAYQ_URL=redis://127.0.0.1/` start it in several terminals: they share the work.

#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "an example talks to a person"
)]

mod day;
mod event;
mod shop;

use std::collections::BTreeSet;
use std::error::Error;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::Parser;
use delayq_plugin::store::StoreOptions;
use delayq_plugin::{
    CancelOutcome, Clock, DelayQueueJob, DelayQueuePlugin, Error as DelayqError, SubmitOutcome,
    SystemClock, TaskState, TaskSubmitService, Timestamp, days, millis, seconds,
};
use tokio::io::{AsyncBufRead, AsyncBufReadExt, BufReader};

use crate::day::{Begin, Day};
use crate::event::{Event, Moment, Order};
use crate::shop::{Cancellation, Shop, say};

/// Cancels orders that are not paid in time: a day of a shop, replayed.
#[derive(Debug, Parser)]
struct Args {
    /// The events, one JSON object a line; `-` is stdin.
    #[arg(default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/data/shop_day.jsonl"))]
    events: PathBuf,
    /// How many seconds of the shop pass in one real second; 1 is real time.
    #[arg(long, default_value_t = 1200.0, value_parser = parse_speed)]
    speed: f64,
    /// Where tasks are kept.
    #[arg(
        long,
        env = "DELAYQ_URL",
        default_value = "sqlite:order_timeout.sqlite"
    )]
    url: String,
}

fn parse_speed(text: &str) -> Result<f64, String> {
    let speed: f64 = text.parse().map_err(|e| format!("{e}"))?;
    let fits = (0.001..=1e6).contains(&speed);
    fits.then_some(speed)
        .ok_or_else(|| "the speed is a number from 0.001 to 1000000".to_owned())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let args = Args::parse();
    let filter = tracing_subscriber::EnvFilter::builder()
        .with_default_directive(tracing::Level::WARN.into())
        .from_env_lossy();
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .init();

    let mut lines = Lines::open(&args.events).await?;
    let options = StoreOptions {
        retention: days(1),
        ..StoreOptions::default()
    };
    let tasks = match TaskSubmitService::connect(&args.url, options).await {
        Ok(tasks) => tasks,
        Err(error) => {
            eprintln!("cannot start: {error}");
            std::process::exit(2);
        }
    };
    let shop = Shop::open()?;
    let mut replay = Replay {
        tasks,
        shop,
        orders: BTreeSet::new(),
        end: Timestamp::ZERO,
    };
    let Some(day) = replay.catch_up(&mut lines, args.speed).await? else {
        println!("no events in {}", args.events.display());
        return Ok(());
    };

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

/// The events, line by line, with a look at the next one.
struct Lines {
    read: tokio::io::Lines<Box<dyn AsyncBufRead + Unpin + Send>>,
    number: u64,
    next: Option<Event>,
    /// Whether they come through a pipe, perhaps as they happen.
    is_live: bool,
}

impl Lines {
    async fn open(path: &PathBuf) -> Result<Self, Box<dyn Error>> {
        let is_live = path.as_os_str() == "-";
        Ok(Self {
            read: open(path).await?.lines(),
            number: 0,
            next: None,
            is_live,
        })
    }

    /// The next event, which stays the next one until it is taken. Lines that are no event are named and
    /// skipped.
    async fn peek(&mut self) -> std::io::Result<Option<&Event>> {
        while self.next.is_none() {
            let Some(line) = self.read.next_line().await? else {
                return Ok(None);
            };
            self.number += 1;
            match Event::parse(&line) {
                _ if line.trim().is_empty() => {}
                Ok(event) => self.next = Some(event),
                Err(error) => say(format!("line {}", self.number), "skipped", error),
            }
        }
        Ok(self.next.as_ref())
    }
}

/// Plays the events into the store.
struct Replay {
    tasks: TaskSubmitService,
    shop: Shop,
    orders: BTreeSet<String>,
    /// Until when the orders so far keep the shop open, in real time.
    end: Timestamp,
}

impl Replay {
    /// Begins or continues the day, and acts on what happened while no instance ran: before any worker
    /// starts, so that a payment that came meanwhile still saves its order.
    async fn catch_up(
        &mut self,
        lines: &mut Lines,
        speed: f64,
    ) -> Result<Option<Day>, Box<dyn Error>> {
        let Some(first) = lines.peek().await?.map(Event::time) else {
            return Ok(None);
        };
        let (day, begin) = Day::begin(&self.tasks, first, speed).await?;
        println!(
            "store: {} · one real second is {} s in the shop",
            self.tasks.store().name(),
            day.speed
        );
        match begin {
            Begin::New => println!("a new day begins"),
            Begin::Continued(ago) => {
                let stats = self.tasks.stats("order.cancel").await?;
                println!(
                    "continuing the day that began {:.1} s ago: {} orders wait for their payment or their \
                     cancellation, {} cancellations were under way",
                    ago.as_secs_f64(),
                    stats.scheduled,
                    stats.running,
                );
            }
        }
        // Events from a pipe are not there yet: the workers do not wait for them.
        let now = if lines.is_live {
            Timestamp::ZERO
        } else {
            SystemClock.now()
        };
        while day.real_time(first) <= now
            && let Some(event) = lines.peek().await?
            && day.real_time(event.time()) <= now
        {
            self.act_on_next(&day, lines).await?;
        }
        Ok(Some(day))
    }

    /// Acts on each event when its time has come, until the day is over.
    async fn play(&mut self, day: &Day, lines: &mut Lines) -> Result<(), Box<dyn Error>> {
        while let Some(event) = lines.peek().await? {
            self.wait_until(day.real_time(event.time())).await?;
            self.act_on_next(day, lines).await?;
        }
        day.end_at(&self.tasks, self.end.plus(millis(500))).await?;
        while !day.is_over(&self.tasks).await? {
            self.wait_until(SystemClock.now().plus(millis(250))).await?;
        }
        self.sum_up().await
    }

    /// Waits, and tells every few seconds what it waits for.
    async fn wait_until(&self, time: Timestamp) -> Result<(), DelayqError> {
        const PROGRESS: Duration = Duration::from_secs(3);
        loop {
            let left = time.since(SystemClock.now());
            tokio::time::sleep(left.min(PROGRESS)).await;
            if left <= PROGRESS {
                return Ok(());
            }
            let stats = self.tasks.stats("order.cancel").await?;
            let next = stats.next_due.map(|due| due.since(stats.now).as_secs_f64());
            let next = next.map_or(String::new(), |s| {
                format!(", the next deadline is in {s:.1} s")
            });
            say(
                "",
                "...",
                format!("{} orders wait for their payment{next}", stats.scheduled),
            );
        }
    }

    async fn act_on_next(&mut self, day: &Day, lines: &mut Lines) -> Result<(), DelayqError> {
        let until = match lines.next.take() {
            None => return Ok(()),
            Some(Event::Placed { time, order }) => {
                let due_at = self.placed(day, time, &order, lines.number).await?;
                self.orders.insert(order.number);
                due_at
            }
            Some(Event::Paid { time, order }) => {
                self.paid(time, &order).await?;
                day.real_time(time)
            }
        };
        self.end = self.end.max(until);
        Ok(())
    }

    /// Sends the cancellation of an order for later. Returns when it is due, in real time.
    async fn placed(
        &self,
        day: &Day,
        time: Moment,
        order: &Order,
        line: u64,
    ) -> Result<Timestamp, DelayqError> {
        let deadline = time.plus(order.timeout());
        let due_at = day.real_time(time).plus(day.real_span(order.timeout()));
        let job = Cancellation {
            order: order.clone(),
            deadline,
        };
        let job = DelayQueueJob::new("order.cancel", &job)?
            .id(&order.number)
            .at(due_at);
        // Sending an order again after a restart is harmless: it is known by its number.
        match self.tasks.send(job).await {
            Ok(receipt) if matches!(receipt.outcome, SubmitOutcome::Accepted { .. }) => {
                let text = format!("{}  {:>10}  {}", order.number, order.total, order.customer);
                say(time.clock(), "placed", text);
            }
            Ok(_) => {}
            Err(
                error @ (DelayqError::Conflict { .. }
                | DelayqError::InvalidName { .. }
                | DelayqError::LimitExceeded { .. }),
            ) => say(format!("line {line}"), "skipped", error),
            Err(error) => return Err(error),
        }
        Ok(due_at)
    }

    async fn paid(&self, time: Moment, number: &str) -> Result<(), DelayqError> {
        let text = match self.tasks.cancel("order.cancel", number).await {
            Ok(CancelOutcome::Cancelled) => {
                say(time.clock(), "saved", format!("{number}  by its payment"));
                return Ok(());
            }
            // Said before the restart, or by another instance.
            Ok(CancelOutcome::Finished(TaskState::Cancelled)) => return Ok(()),
            Ok(CancelOutcome::NotFound) => "it was never placed".to_owned(),
            Ok(CancelOutcome::Running | CancelOutcome::Finished(_)) => {
                "too late: it was cancelled".to_owned()
            }
            Err(error @ DelayqError::InvalidName { .. }) => error.to_string(),
            Err(error) => return Err(error),
        };
        say(time.clock(), "paid", format!("{number}  {text}"));
        Ok(())
    }

    async fn sum_up(&self) -> Result<(), Box<dyn Error>> {
        let (mut cancelled, mut saved, mut other) = (0, 0, 0);
        for order in &self.orders {
            let found = self.tasks.find("order.cancel", order).await;
            match found.ok().flatten().map(|info| info.state) {
                Some(TaskState::Done) => cancelled += 1,
                Some(TaskState::Cancelled) => saved += 1,
                _ => other += 1,
            }
        }
        println!("\nthe day is over: {} orders", self.orders.len());
        println!("  {saved} saved by their payment, {cancelled} cancelled, {other} neither");
        let late = self.shop.lateness_ms();
        println!(
            "  {} of the cancellations ran in this instance since its start",
            late.len()
        );
        if !late.is_empty() {
            println!(
                "  late by (ms): min {}, p50 {}, p90 {}, p99 {}, max {}",
                late.min(),
                late.value_at_quantile(0.5),
                late.value_at_quantile(0.9),
                late.value_at_quantile(0.99),
                late.max(),
            );
        }
        Ok(())
    }
}

async fn open(path: &PathBuf) -> Result<Box<dyn AsyncBufRead + Unpin + Send>, Box<dyn Error>> {
    if path.as_os_str() == "-" {
        return Ok(Box::new(BufReader::new(tokio::io::stdin())));
    }
    match tokio::fs::File::open(path).await {
        Ok(file) => Ok(Box::new(BufReader::new(file))),
        Err(error) => Err(format!("cannot read {}: {error}", path.display()).into()),
    }
}
