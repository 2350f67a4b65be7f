//! The web page, in front of a shop with planted trouble: a type that nobody serves, one that is
//! paused, a slow worker, a partner that is away, a task that kills its worker. Open the address
//! that it prints, and end it with Ctrl-C.
//!
//! `cargo run --example admin_page`, or with an address and the URL of a store:
//! `cargo run --example admin_page -- 127.0.0.1:9465 sqlite:/tmp/shop.db`
#![allow(clippy::print_stdout, reason = "an example talks to whoever runs it")]

use std::error::Error;
use std::time::Duration;

use delayq_admin::{Admin, Role, Viewer};
use delayq_plugin::store::{Figures, Spell, Step};
use delayq_plugin::{
    Batch, DelayQueueJob, DelayQueuePlugin, TaskContext, TaskError, TaskResult, TaskSubmitService,
    TaskType, hours, minutes, seconds, task_worker,
};
use serde::{Deserialize, Serialize};

/// What the shop's tasks carry.
#[derive(Debug, Serialize, Deserialize)]
struct Order {
    number: u64,
    customer: String,
    lines: Vec<String>,
    total_cents: u64,
}

impl Order {
    fn number(number: u64) -> Self {
        Self {
            number,
            customer: format!("customer-{}", number % 97),
            lines: vec!["tea, Darjeeling, 250 g".to_owned(), "pot, blue".to_owned()],
            total_cents: 1_990 + number % 7 * 350,
        }
    }
}

/// A number that looks like chance, so that each run shows the same.
fn dice(seed: u64, sides: u64) -> u64 {
    seed.wrapping_mul(6_364_136_223_846_793_005).rotate_left(29) % sides
}

#[task_worker(type = "mail.send", concurrency = 16)]
async fn mail(_order: &[u8], cx: &TaskContext) -> TaskResult {
    tokio::time::sleep(Duration::from_millis(20 + dice(cx.fence(), 120))).await;
    Ok(())
}

#[task_worker(type = "order.cancel")]
async fn cancel(_order: &[u8]) -> TaskResult {
    tokio::time::sleep(Duration::from_millis(8)).await;
    Ok(())
}

/// Comes slower than it is sent.
#[task_worker(type = "invoice.render", concurrency = 2)]
async fn invoice(_order: &[u8], cx: &TaskContext) -> TaskResult {
    tokio::time::sleep(Duration::from_millis(2_000 + dice(cx.fence(), 2_500))).await;
    Ok(())
}

/// The partner is away half of the time.
#[task_worker(type = "webhook.deliver", pool = "partners", retry(max = 3, backoff = fixed, base = "2s"))]
async fn webhook(_order: &[u8], cx: &TaskContext) -> TaskResult {
    match dice(cx.fence(), 4) {
        0 => Err(
            std::io::Error::other("connect to partner-7.example:443: connection refused").into(),
        ),
        1 => Err(std::io::Error::other("503 Service Unavailable after 30 s").into()),
        _ => Ok(()),
    }
}

/// Every third row is broken, and trying again does not mend it.
#[task_worker(type = "stock.import", pool = "partners", retry(max = 2, backoff = fixed, base = "1s"))]
async fn import(row: &[u8], cx: &TaskContext) -> TaskResult {
    if dice(cx.fence(), 3) == 0 {
        let reason = format!("row {}: column price: \"12,O0\" is no number", row.len());
        return Err(TaskError::dead(std::io::Error::other(reason)));
    }
    Ok(())
}

#[task_worker(type = "report.daily")]
async fn report(_order: &[u8]) -> TaskResult {
    Ok(())
}

#[task_worker(type = "search.index", concurrency = 32)]
async fn index(_order: &[u8]) -> TaskResult {
    Ok(())
}

#[task_worker(type = "cache.sweep", every = "15m")]
async fn sweep() {}

#[task_worker(
    type = "report.sales",
    every = "0 9 * * MON-FRI",
    zone = "Europe/Berlin"
)]
async fn sales() {}

#[task_worker(type = "catalogue.done")]
async fn catalogue_done(_order: &[u8]) -> TaskResult {
    Ok(())
}

fn job(task_type: &str, number: u64) -> Result<DelayQueueJob, Box<dyn Error>> {
    let job = DelayQueueJob::new(task_type, &Order::number(number))?;
    let tenant = format!("tenant-{}", number % 5);
    Ok(job.id(format!("order-{number}")).group(tenant))
}

/// What waits when the shop opens.
async fn open_shop(tasks: &TaskSubmitService) -> Result<(), Box<dyn Error>> {
    let mut jobs = Vec::new();
    for number in 0..400 {
        jobs.push(job("order.cancel", number)?.after(seconds(number * 9)));
        jobs.push(job("mail.send", number)?.after(minutes(dice(number, 600))));
        jobs.push(job("invoice.render", number)?.after(seconds(dice(number, 3_600))));
    }
    for number in 0..120 {
        jobs.push(job("webhook.deliver", number)?.after(seconds(dice(number, 600))));
        jobs.push(job("stock.import", number)?.after(seconds(dice(number, 900))));
        jobs.push(job("newsletter.send", number)?.after(hours(dice(number, 700))));
        jobs.push(job("report.daily", number)?.after(seconds(dice(number, 300))));
    }
    // Nobody has a worker for it: somebody wrote `sms.sent` where `sms.send` was meant.
    for number in 0..42 {
        jobs.push(job("sms.sent", number)?.after(seconds(number)));
    }
    for sent in tasks.send_all(jobs).await {
        sent?;
    }
    tasks.pause("report.daily", None).await?;
    let pages = (0..240).map(|number| {
        let page = DelayQueueJob::new("search.index", &number);
        page.map(|page| page.after(seconds(dice(number, 900))))
    });
    let pages = pages.collect::<Result<Vec<_>, _>>()?;
    let done = DelayQueueJob::new("catalogue.done", "spring")?;
    tasks
        .send_batch(Batch::new("catalogue-spring").jobs(pages).then(done))
        .await?;
    Ok(())
}

/// What a day of the shop left behind in the figures, so that the charts have a past.
async fn remember_a_day(tasks: &TaskSubmitService) -> Result<(), Box<dyn Error>> {
    let now = Step::Minute.begin(tasks.clock().now());
    let types = [
        ("mail.send", 340, 60),
        ("order.cancel", 130, 9),
        ("invoice.render", 28, 3_100),
        ("webhook.deliver", 45, 240),
        ("stock.import", 20, 35),
        ("search.index", 900, 4),
        ("newsletter.send", 6, 80),
    ];
    for (name, rate, run_ms) in types {
        let mut spells = Vec::new();
        for ago in 1..1_440 {
            let noise = dice(ago * 31 + rate, 40) + 80;
            // Busy by day, quiet by night.
            let hour = (1_440 + 600 - ago) / 60 % 24;
            let tide = if (7..22).contains(&hour) { 100 } else { 22 };
            let started = rate * noise * tide / 10_000;
            let mut figures = Figures::default();
            figures.started = started;
            figures.failed = if name == "webhook.deliver" {
                started / 4
            } else {
                started / 90
            };
            figures.done = started - figures.failed;
            figures.run_ms = run_ms * started;
            figures.longest_run_ms = run_ms * (3 + dice(ago, 5));
            let is_jam = (200..230).contains(&ago) || (24..31).contains(&ago);
            for (bucket, share) in [(0, 40), (1, 30), (2, 20), (3, 9), (5, 1)] {
                let bucket = if is_jam { bucket + 9 } else { bucket };
                figures
                    .lateness
                    .add(bucket, (started * share).div_ceil(100));
            }
            spells.push(Spell {
                at: now.minus(minutes(ago)),
                figures,
            });
        }
        tasks
            .store()
            .add_figures(&TaskType::new(name)?, &spells)
            .await?;
    }
    Ok(())
}

/// The shop goes on selling.
async fn sell(tasks: TaskSubmitService) {
    let mut number = 1_000_000;
    loop {
        tokio::time::sleep(Duration::from_millis(120)).await;
        number += 1;
        let types = [
            "mail.send",
            "search.index",
            "webhook.deliver",
            "invoice.render",
            "stock.import",
        ];
        let Some(task_type) = types.get(usize::try_from(dice(number, 5)).unwrap_or(0)) else {
            continue;
        };
        let Ok(job) = job(task_type, number) else {
            continue;
        };
        if let Err(error) = tasks.send(job.after(seconds(dice(number, 20)))).await {
            println!("{error}");
        }
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let address = arguments
        .next()
        .unwrap_or_else(|| "127.0.0.1:9465".to_owned());
    let url = arguments
        .next()
        .unwrap_or_else(|| "memory:?durability=memory".to_owned());
    let plugin = DelayQueuePlugin::builder()
        .url(url)
        .pool("partners", 4)
        .start()
        .await?;
    let tasks = plugin.submit_service();
    remember_a_day(&tasks).await?;
    open_shop(&tasks).await?;
    tokio::spawn(sell(tasks.clone()));

    // Whoever reaches this address may do everything: never do so beyond 127.0.0.1.
    let admin = Admin::new(tasks).authorize(|_| Some(Viewer::new("you", Role::Admin)));
    let listener = tokio::net::TcpListener::bind(&address).await?;
    println!("http://{}", listener.local_addr()?);
    tokio::select! {
        served = admin.serve(listener) => served?,
        ended = plugin.run_until_signal() => { ended?; }
    }
    Ok(())
}
