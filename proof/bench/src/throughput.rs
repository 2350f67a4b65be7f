//! How many tasks a second: submitted in bulk, submitted singly, run.

use std::time::Instant;

use delayq_plugin::{CancelOutcome, Receipt, TaskSubmitService};
use tokio::task::JoinSet;

use crate::Failure;
use crate::backlog::Backlog;
use crate::bare_redis::rate;
use crate::load::{self, BULK, IN_FLIGHT, Ids, TASK_TYPE, parts};
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
    let tasks = plugin.submit_service();
    let started = Instant::now();
    send_singly(&tasks, count).await?;
    let rate = rate(count, started);
    end(plugin).await;
    Ok(rate)
}

/// Sends by many callers that each wait for their answer.
pub(crate) async fn send_singly(tasks: &TaskSubmitService, count: usize) -> Result<(), Failure> {
    let mut callers = JoinSet::new();
    for numbers in parts(count, count.div_ceil(IN_FLIGHT)) {
        let tasks = tasks.clone();
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
    Ok(())
}

/// Tasks a second that are cancelled by their ids, by many callers that each wait for their answer.
pub(crate) async fn cancel(stage: &Stage, count: usize) -> Result<f64, Failure> {
    let plugin = stage.site().await?.plugin(Counter::up_to(0)).await?;
    let tasks = plugin.submit_service();
    for bulk in parts(count, BULK) {
        let jobs = bulk.map(|number| Ok(load::later(number)?.id(Ids::Own.id(number)?.as_str())));
        let jobs: Result<Vec<_>, Failure> = jobs.collect();
        all_accepted(tasks.send_all(jobs?).await)?;
    }
    let started = Instant::now();
    let mut callers = JoinSet::new();
    for numbers in parts(count, count.div_ceil(IN_FLIGHT)) {
        let tasks = plugin.submit_service();
        callers.spawn(async move {
            for number in numbers {
                let id = Ids::Own.id(number)?;
                let outcome = tasks.cancel(TASK_TYPE, id.as_str()).await?;
                if outcome != CancelOutcome::Cancelled {
                    return Err(
                        format!("a cancel of the waiting task {number}: {outcome:?}").into(),
                    );
                }
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

/// Tasks a second that are claimed, run by a typed worker that does nothing, and settled.
pub(crate) async fn drain(stage: &Stage, types: usize, count: usize) -> Result<f64, Failure> {
    let backlog = Backlog::of(stage, types, count).await?;
    backlog.send().await?;
    let started = Instant::now();
    backlog.run().await?;
    let rate = rate(count, started);
    backlog.end().await;
    Ok(rate)
}

/// The first that was not.
pub(crate) fn all_accepted(
    results: Vec<Result<Receipt, delayq_plugin::Error>>,
) -> Result<(), Failure> {
    for result in results {
        result?;
    }
    Ok(())
}
