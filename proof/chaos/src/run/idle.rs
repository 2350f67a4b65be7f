//! After the faults: single tasks for handlers that sleep, and cancels of tasks that run. Whoever
//! sends one has to wake its handler; whoever cancels has to be told that it runs. The load of a
//! run seldom meets either.

use std::time::Duration;

use delayq_plugin::{DelayQueueJob, TaskState, TaskSubmitService, millis, seconds};
use tokio::task::JoinSet;

use super::failure::Result;
use super::part::idle_type;
use super::stage::Stage;
use super::task_body::{Message, TaskBody};
use super::worker::next_id;

/// Tasks that each idle type is sent, one after the other; each sends one more from within its
/// process.
const ROUNDS: usize = 6;
/// Time between them: just over a poll interval, so that the handler has gone to sleep again after
/// a look of its own, and would take most of an interval to look again.
const PAUSE: Duration = millis(1_100);
/// A task that waits meanwhile, so that those sent come before what their handler sleeps for.
const LATER: Duration = seconds(600);
/// How long a task works that is cancelled meanwhile, in milliseconds.
const WORK_MS: u64 = 500;
/// How long a task may take to start or to end, in units of 10 ms.
const PATIENCE: usize = 3_000;

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
        job(&task_type, TaskBody::Work(0))?.id("later").after(LATER),
    )
    .await?;
    for round in 0..ROUNDS {
        tokio::time::sleep(PAUSE).await;
        let id = format!("wake-{round}");
        send(&tasks, job(&task_type, TaskBody::Send)?.id(id.clone())).await?;
        for id in [next_id(&id), id] {
            if !comes_to(&tasks, &task_type, (&id, TaskState::is_ended)).await? {
                return Ok(());
            }
        }
    }
    let _ = tasks.cancel(&task_type, "later").await?;
    cancel_running(&tasks, &task_type).await
}

/// What is answered is in the record.
async fn cancel_running(tasks: &TaskSubmitService, task_type: &str) -> Result<()> {
    let id = "runs";
    send(tasks, job(task_type, TaskBody::Work(WORK_MS))?.id(id)).await?;
    let has_started = |state| state != TaskState::Scheduled;
    if comes_to(tasks, task_type, (id, has_started)).await? {
        let _ = tasks.cancel(task_type, id).await?;
        comes_to(tasks, task_type, (id, TaskState::is_ended)).await?;
    }
    Ok(())
}

fn job(task_type: &str, body: TaskBody) -> Result<DelayQueueJob> {
    let padding = String::new();
    Ok(DelayQueueJob::new(task_type, &Message { body, padding })?)
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

/// Awaits that the state of the task is as asked for; what becomes of one that does not come there,
/// the checker says.
async fn comes_to(
    tasks: &TaskSubmitService,
    task_type: &str,
    (id, wanted): (&str, fn(TaskState) -> bool),
) -> Result<bool> {
    for _ in 0..PATIENCE {
        let found = tasks.find(task_type, id).await?;
        if found.is_some_and(|info| wanted(info.state)) {
            return Ok(true);
        }
        tokio::time::sleep(millis(10)).await;
    }
    Ok(false)
}
