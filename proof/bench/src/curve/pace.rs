//! How many tasks a second a store takes and gives, with one process.

use std::time::Instant;

use delayq_plugin::{
    DelayQueueJob, DelayQueuePlugin, Error, Receipt, TaskSubmitService, WorkerOptions,
};
use tokio::task::JoinSet;

use crate::Failure;
use crate::backlog::all_settled;
use crate::bare_redis::rate;
use crate::load::{self, IN_FLIGHT, Message, TASK_TYPE, parts};
use crate::stage::end;
use crate::throughput::all_accepted;
use crate::worker::Counter;

/// Calls in bulk that are under way at the same time when nobody measures them.
const FLIGHTS: usize = 4;

/// Tasks a second.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    pub(crate) submit: f64,
    pub(crate) drain: f64,
}

/// A job that is due at once.
pub(crate) fn now(number: usize) -> Result<DelayQueueJob, Error> {
    DelayQueueJob::new(TASK_TYPE, &Message::new(number))
}

/// Sends `count` jobs as fast as they are taken, `bulk` of them in a call.
pub(crate) async fn send(
    tasks: &TaskSubmitService,
    count: usize,
    bulk: usize,
    job: impl Fn(usize) -> Result<DelayQueueJob, Error>,
) -> Result<(), Failure> {
    let mut flights: JoinSet<Vec<Result<Receipt, Error>>> = JoinSet::new();
    for numbers in parts(count, bulk) {
        let jobs = numbers.map(&job).collect::<Result<Vec<_>, _>>()?;
        if flights.len() >= FLIGHTS
            && let Some(landed) = flights.join_next().await
        {
            all_accepted(landed?)?;
        }
        let tasks = tasks.clone();
        flights.spawn(async move { tasks.send_all(jobs).await });
    }
    while let Some(landed) = flights.join_next().await {
        all_accepted(landed?)?;
    }
    Ok(())
}

/// One caller sends `count` jobs in calls of `bulk`, each awaited before the next one; then all are
/// run by a worker with these options.
pub(crate) async fn in_bulk(
    (url, options): (&str, WorkerOptions),
    count: usize,
    bulk: usize,
    job: impl Fn(usize) -> Result<DelayQueueJob, Error>,
) -> Result<Pace, Failure> {
    let worker = Counter::up_to(count);
    let plugin = plugin(url, options, worker.clone()).await?;
    let tasks = plugin.submit_service();
    tasks.pause(TASK_TYPE, None).await?;
    let started = Instant::now();
    for numbers in parts(count, bulk) {
        let jobs = numbers.map(&job).collect::<Result<Vec<_>, _>>()?;
        all_accepted(tasks.send_all(jobs).await)?;
    }
    let submit = rate(count, started);
    let started = Instant::now();
    tasks.resume(TASK_TYPE).await?;
    worker.wait().await?;
    all_settled(&tasks, TASK_TYPE).await?;
    let drain = rate(count, started);
    end(plugin).await;
    Ok(Pace { submit, drain })
}

/// Tasks a second through `send`, by many callers that each wait for their answer.
pub(crate) async fn singly(url: &str, count: usize) -> Result<f64, Failure> {
    let options = WorkerOptions::default();
    let plugin = plugin(url, options, Counter::up_to(0)).await?;
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

async fn plugin(
    url: &str,
    options: WorkerOptions,
    worker: Counter,
) -> Result<DelayQueuePlugin, Failure> {
    let plugin = DelayQueuePlugin::builder()
        .url(url)
        .without_registered_workers();
    Ok(plugin.worker(TASK_TYPE, options, worker).start().await?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn all_that_is_sent_is_run_whatever_the_size_of_a_call() {
        for bulk in [1, 7, 1_000] {
            let pace = in_bulk(
                ("memory:?durability=memory", WorkerOptions::default()),
                50,
                bulk,
                now,
            )
            .await;
            let pace = pace.unwrap();
            assert!(pace.submit > 0.0 && pace.drain > 0.0, "{pace:?}");
        }
        let singly = singly("memory:?durability=memory", 100).await;
        assert!(singly.unwrap() > 0.0);
    }
}
