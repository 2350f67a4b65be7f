//! Reserved stock goes back on sale after 7 days, unless it is bought or the customer asks for more
//! time. Ten days pass in a moment, on the virtual clock of the test kit.
#![allow(clippy::print_stdout, reason = "an example talks to whoever runs it")]

use std::error::Error;

use delayq_plugin::{Component, Json, TaskContext, TaskResult, When, days, task_worker};
use delayq_testing::TestQueue;
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
    let (shelf, mut released) = channel::<String>(8);
    let queue = TestQueue::start(|builder| builder.component(shelf)).await?;
    let tasks = queue.tasks();

    for (id, article, pieces) in [("ada", "lamp", 3), ("bob", "chair", 4), ("eve", "desk", 1)] {
        let article = article.to_owned();
        let job = release::job(&Reservation { article, pieces })?.id(id);
        tasks.send(job.after("7d")).await?;
        println!("{} {id} reserves {pieces}", queue.now());
    }
    for day in 1..=10 {
        queue.advance("1d").await;
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
            7 | 10 => released.try_recv()?,
            _ => format!(
                "waiting: {}",
                queue.scheduled(release::TASK_TYPE).await.len()
            ),
        };
        println!("{} {outcome}", queue.now());
    }
    Ok(())
}
