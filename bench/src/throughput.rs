//! How many tasks a second: submitted in bulk, submitted singly, run.

use std::time::{Duration, Instant};

use delayq_plugin::{Receipt, TaskSubmitService};
use tokio::task::JoinSet;

use crate::Failure;
use crate::bare_redis::rate;
use crate::load::{self, BULK, IN_FLIGHT, TASK_TYPE, parts};
use crate::stage::{Stage, end};
use crate::worker::Counter;

/// Tasks a second through `send_all`, by one caller.
pub(crate) async fn submit_in_bulk(stage: &Stage, count: usize) -> Result<f64, Failure> {
    let plugin = stage.site().await?.plugin(Counter::up_to(0)).await?;
    let tasks = plugin.submit_service();
    let started = Instant::now();
    for bulk in parts(count, BULK) {
        let jobs = bulk.map(load::later).collect::<Result<Vec<_>, _>>()?;
        all_accepted(tasks.send_all(jobs).await)?;
    }
    let rate = rate(count, started);
    end(plugin).await;
    Ok(rate)
}

/// Tasks a second through `send`, by many callers that each wait for their answer.
pub(crate) async fn submit_singly(stage: &Stage, count: usize) -> Result<f64, Failure> {
    let plugin = stage.site().await?.plugin(Counter::up_to(0)).await?;
    let started = Instant::now();
    let mut callers = JoinSet::new();
    for numbers in parts(count, count.div_ceil(IN_FLIGHT)) {
        let tasks = plugin.submit_service();
        callers.spawn(async move {
            for number in numbers {
                tasks.send(load::later(number)?).await?;
            }
            Ok::<_, Failure>(())
        });
    }
    while let Some(ended) = callers.join_next().await {
        ended??;
    }
    let rate = rate(count, started);
    end(plugin).await;
    Ok(rate)
}

/// Tasks a second that are claimed, run by an empty worker and settled. They wait behind a pause until
/// all are there.
pub(crate) async fn drain(stage: &Stage, count: usize) -> Result<f64, Failure> {
    let worker = Counter::up_to(count);
    let plugin = stage.site().await?.plugin(worker.clone()).await?;
    let tasks = plugin.submit_service();
    tasks.pause(TASK_TYPE, None).await?;
    for bulk in parts(count, BULK) {
        let jobs = bulk.map(load::now).collect::<Result<Vec<_>, _>>()?;
        all_accepted(tasks.send_all(jobs).await)?;
    }
    let started = Instant::now();
    tasks.resume(TASK_TYPE).await?;
    worker.wait().await?;
    all_settled(&tasks).await?;
    let rate = rate(count, started);
    end(plugin).await;
    Ok(rate)
}

fn all_accepted(results: Vec<Result<Receipt, delayq_plugin::Error>>) -> Result<(), Failure> {
    for result in results {
        result?;
    }
    Ok(())
}

async fn all_settled(tasks: &TaskSubmitService) -> Result<(), Failure> {
    loop {
        let stats = tasks.stats(TASK_TYPE).await?;
        if stats.scheduled + stats.running == 0 {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}
