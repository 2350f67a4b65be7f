//! Reserved stock goes back on sale after 7 days, unless it is bought or the customer asks for more
//! time. Ten days pass in a moment: store and plugin run on a virtual clock, as in a test.
#![allow(clippy::print_stdout, reason = "an example talks to whoever runs it")]

use std::error::Error;
use std::sync::Arc;

use delayq_plugin::store::{MemoryStore, StoreOptions};
use delayq_plugin::{
    Clock, Component, DelayQueuePlugin, Json, TaskContext, TaskResult, When, days, seconds,
    task_worker,
};
use delayq_testing::VirtualClock;
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc::{Sender, channel};

#[derive(Serialize, Deserialize)]
struct Reservation {
    article: String,
    pieces: u32,
}

#[task_worker(type = "stock.release")]
async fn release(
    Json(Reservation { article, pieces }): Json<Reservation>,
    cx: &TaskContext,
    shelf: Component<Sender<String>>,
) -> TaskResult {
    let kept = cx.age().as_secs() / 86_400;
    shelf
        .send(format!(
            "{}: {pieces} x {article}, kept for {kept} days",
            cx.id()
        ))
        .await?;
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let clock = VirtualClock::default();
    let store = MemoryStore::new(Arc::new(clock.clone()), StoreOptions::default());
    let (shelf, mut released) = channel::<String>(8);
    let plugin = DelayQueuePlugin::builder()
        .store(Arc::new(store))
        .clock(Arc::new(clock.clone()))
        .component(shelf)
        .start()
        .await?;
    let tasks = plugin.submit_service();

    for (id, article, pieces) in [("ada", "lamp", 3), ("bob", "chair", 4), ("eve", "desk", 1)] {
        let article = article.to_owned();
        let job = release::job(&Reservation { article, pieces })?.id(id);
        tasks.send(job.after(days(7))).await?;
        println!("{} {id} reserves {pieces}", clock.now());
    }
    for day in 1..=10 {
        clock.advance(days(1));
        let outcome = match day {
            3 => format!(
                "bob buys: {:?}",
                tasks.cancel(release::TASK_TYPE, "bob").await?
            ),
            5 => {
                let later = When::After(days(5));
                let moved = tasks.reschedule(release::TASK_TYPE, "ada", later).await?;
                format!("ada gets five more days: {moved:?}")
            }
            7 | 10 => released.recv().await.ok_or("the worker is gone")?,
            _ => format!(
                "waiting: {}",
                tasks.stats(release::TASK_TYPE).await?.scheduled
            ),
        };
        println!("{} {outcome}", clock.now());
        // A day is longer than any lock: a task that is just being settled would be given again.
        while tasks.stats(release::TASK_TYPE).await?.running > 0 {
            tokio::task::yield_now().await;
        }
    }
    plugin.shutdown(seconds(0)).await;
    Ok(())
}
