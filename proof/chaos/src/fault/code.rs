//! Faults of the application's own code: workers that panic, block, hang, or end their process.

use delayq_plugin::{TaskInfo, TaskState, millis};

use super::Kind;
use crate::event::{Explains, Target};
use crate::run::{Result, Stage, TaskBody, own_type};

/// How long the task may take to end after all, in units of 10 ms. A run goes on without it, so
/// that the checker says what became of it.
const PATIENCE: usize = 3_000;

/// Sends one worker process a task that misbehaves in its first attempt, and awaits that it is done
/// nevertheless. What its trail says, or how long it took, shows that it happened.
pub(super) async fn misbehave(kind: Kind, stage: &mut Stage) -> Result<bool> {
    let lock = stage.lock_ms;
    let victim = stage.dice.usize(..stage.workers.len());
    let Some(worker) = stage.workers.get(victim) else {
        return Ok(false);
    };
    let name = worker.name().to_owned();
    let task_type = own_type(&name);
    let id = format!("{}-{}", kind.name(), stage.dice.u32(..));
    let task = format!("{task_type}/{id}");
    let (body, target, explains) = match kind {
        Kind::WorkerPanics => (TaskBody::Panic, Target::Task(task), vec![]),
        Kind::WorkerHangs => (TaskBody::Hang, Target::Task(task), vec![]),
        Kind::WorkerBlocks => (
            TaskBody::Block(lock + lock / 2),
            Target::Process(name),
            vec![],
        ),
        Kind::RuntimeBlocked => (
            TaskBody::BlockRuntime(lock + lock / 2),
            Target::Process(name),
            vec![],
        ),
        _ => (
            TaskBody::Abort,
            Target::Process(name),
            vec![Explains::LostLock],
        ),
    };
    let open = stage.begin(&kind.name(), target, explains);
    let began = std::time::Instant::now();
    let job = body.job(&task_type, &mut stage.dice)?.id(id.clone());
    stage.send(job).await?;
    if kind == Kind::WorkerAborts {
        let Some(worker) = stage.workers.get_mut(victim) else {
            return Ok(false);
        };
        worker.gone().await?;
        worker.restart()?;
        worker.up().await?;
        stage.end(&open);
    }
    let info = ended(stage, &task_type, &id).await?;
    if kind != Kind::WorkerAborts {
        stage.end(&open);
    }
    let Some(info) = info.filter(|info| info.state == TaskState::Done) else {
        return Ok(false);
    };
    Ok(match kind {
        Kind::WorkerBlocks | Kind::RuntimeBlocked => {
            info.attempt == 1 && began.elapsed() >= millis(lock + lock / 2)
        }
        _ => info.attempt > 1,
    })
}

async fn ended(stage: &Stage, task_type: &str, id: &str) -> Result<Option<TaskInfo>> {
    for _ in 0..PATIENCE {
        let found = stage.find(task_type, id).await?;
        let has_ended =
            |info: &TaskInfo| !matches!(info.state, TaskState::Scheduled | TaskState::Running);
        if let Some(info) = found.filter(has_ended) {
            return Ok(Some(info));
        }
        tokio::time::sleep(millis(10)).await;
    }
    Ok(None)
}

/// Gives one worker process a task that lasts, and awaits that it holds it, but not for ever:
/// whoever is killed or stopped while it holds nothing loses nothing.
pub(super) async fn occupy(stage: &mut Stage, victim: usize, body: TaskBody) -> Result<()> {
    let Some(worker) = stage.workers.get(victim) else {
        return Ok(());
    };
    let task_type = own_type(worker.name());
    let mut id = held(stage, &task_type, body).await?;
    for _ in 0..PATIENCE {
        match stage.find(&task_type, &id).await?.map(|info| info.state) {
            Some(TaskState::Running) => return Ok(()),
            Some(TaskState::Scheduled) => {}
            // It was over before it was seen.
            _ => id = held(stage, &task_type, body).await?,
        }
        tokio::time::sleep(millis(5)).await;
    }
    Ok(())
}

/// Sends the task that is to be held, and tells its id.
async fn held(stage: &mut Stage, task_type: &str, body: TaskBody) -> Result<String> {
    let id = format!("held-{}", stage.dice.u32(..));
    let job = body.job(task_type, &mut stage.dice)?.id(id.clone());
    stage.send(job).await?;
    Ok(id)
}
