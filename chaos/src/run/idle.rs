//! After the faults: single tasks for handlers that sleep. Whoever sends one has to wake its handler.

use std::time::Duration;

use delayq_plugin::{DelayQueueJob, TaskState, TaskSubmitService, millis, seconds};
use tokio::task::JoinSet;

use super::chore::{Chore, Message};
use super::failure::{Result, failure};
use super::part::idle_type;
use super::stage::Stage;
use super::worker::next_id;

/// Tasks that each idle type is sent, one after the other; each sends one more from within its process.
const ROUNDS: usize = 6;
/// Time between them: just over a poll interval, so that the handler has gone to sleep again after a look of
/// its own, and would take most of an interval to look again.
const PAUSE: Duration = millis(1_100);
/// A task that waits meanwhile, so that those sent come before what their handler sleeps for.
const LATER: Duration = seconds(600);
/// How long a task may take to end, in units of 10 ms.
const PATIENCE: usize = 6_000;

/// The idle types of a run with so many worker processes.
pub(crate) fn idle_types(workers: u32) -> Vec<String> {
    (0..workers).map(|n| idle_type(&format!("w{n}"))).collect()
}

/// Waits until everybody has recovered, then sends. How late they start is in the record.
pub(crate) async fn wake_the_idle(stage: &Stage) -> Result<()> {
    tokio::time::sleep(millis(stage.lock_ms) + seconds(1)).await;
    let mut types = JoinSet::new();
    for worker in &stage.workers {
        let task_type = idle_type(worker.name());
        types.spawn(keep_waking(stage.service.clone(), task_type));
    }
    for done in types.join_all().await {
        done?;
    }
    Ok(())
}

async fn keep_waking(tasks: TaskSubmitService, task_type: String) -> Result<()> {
    send(
        &tasks,
        job(&task_type, Chore::Work(0))?.id("later").after(LATER),
    )
    .await?;
    for round in 0..ROUNDS {
        tokio::time::sleep(PAUSE).await;
        let id = format!("wake-{round}");
        send(&tasks, job(&task_type, Chore::Send)?.id(id.clone())).await?;
        for id in [next_id(&id), id] {
            ended(&tasks, &task_type, &id).await?;
        }
    }
    tasks.cancel(&task_type, "later").await?;
    Ok(())
}

fn job(task_type: &str, chore: Chore) -> Result<DelayQueueJob> {
    let padding = String::new();
    Ok(DelayQueueJob::new(task_type, &Message { chore, padding })?)
}

/// Again and again: a busy machine may be slow to answer.
async fn send(tasks: &TaskSubmitService, job: DelayQueueJob) -> Result<()> {
    while let Err(error) = tasks.send(job.clone()).await {
        if !error.is_transient() {
            return Err(error.into());
        }
        tokio::time::sleep(millis(20)).await;
    }
    Ok(())
}

async fn ended(tasks: &TaskSubmitService, task_type: &str, id: &str) -> Result<()> {
    for _ in 0..PATIENCE {
        let found = tasks.find(task_type, id).await?;
        if found.is_some_and(|info| info.state == TaskState::Done) {
            return Ok(());
        }
        tokio::time::sleep(millis(10)).await;
    }
    failure(format!("{task_type}/{id} does not end"))
}
