//! A payment call-back that is refused: retried with growing waits, dead, looked at, requeued,
//! accepted.
#![allow(clippy::print_stdout, reason = "an example prints")]

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use delayq_plugin::{
    Component, DeadFilter, DelayQueuePlugin, Json, TaskContext, TaskError, TaskResult, TaskState,
    TaskSubmitService, millis, seconds, task_worker,
};
use tokio::sync::{Notify, RwLock};

/// Stands in for the merchant's server, and says when it was reached.
struct Merchant {
    answer: RwLock<&'static str>,
    accepted: Notify,
}

/// Four attempts, with waits of 200, 400 and 800 ms between them. A real one would begin with
/// seconds.
#[task_worker(
    type = "payment.callback",
    retry(max = 4, backoff = exponential, base = "200ms", jitter = 0.0)
)]
async fn call_back(
    Json(cents): Json<u64>,
    cx: &TaskContext,
    merchant: Component<Arc<Merchant>>,
) -> TaskResult {
    let answer = *merchant.answer.read().await;
    let after = cx.age().as_millis();
    println!(
        "attempt {} after {after} ms: {} has {cents} cents: {answer}",
        cx.attempt(),
        cx.id()
    );
    if answer != "200 OK" {
        return Err(TaskError::retry(answer));
    }
    merchant.accepted.notify_one();
    Ok(())
}

async fn show_the_first_dead(tasks: &TaskSubmitService) -> delayq_plugin::Result<()> {
    let mut looks = tokio::time::interval(millis(50));
    loop {
        looks.tick().await;
        let dead = tasks
            .list(call_back::TASK_TYPE, TaskState::Dead, None, 10)
            .await?;
        for task in &dead.tasks {
            let error = task.history.last_error.as_deref().unwrap_or_default();
            println!("dead: {} after {} attempts: {error}", task.id, task.attempt);
        }
        if !dead.tasks.is_empty() {
            return Ok(());
        }
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let merchant = Arc::new(Merchant {
        answer: RwLock::new("503 Service Unavailable"),
        accepted: Notify::new(),
    });
    let builder = DelayQueuePlugin::builder().url("memory:?durability=memory");
    let plugin = builder.component(Arc::clone(&merchant)).start().await?;
    let tasks = plugin.submit_service();
    tasks.send(call_back::job(&4_200)?.id("payment-7")).await?;

    show_the_first_dead(&tasks).await?;
    *merchant.answer.write().await = "200 OK";
    let refused = DeadFilter::Matching {
        died_before: None,
        error_contains: Some("503".to_owned()),
        limit: 1_000,
    };
    let all_now = Duration::ZERO;
    let again = tasks
        .requeue_dead(call_back::TASK_TYPE, &refused, all_now)
        .await?;
    println!("the merchant is back, requeued: {again:?}");
    merchant.accepted.notified().await;
    plugin.shutdown(seconds(1)).await;
    Ok(())
}
