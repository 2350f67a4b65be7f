//! Faults of processes: killed, stopped.

use std::time::{Duration, Instant};

use delayq_plugin::{millis, seconds};
use rustix::process::Signal;

use super::Kind;
use super::code::occupy;
use crate::event::{Explains, Target};
use crate::run::{Process, Result, Stage, StoreKind, TaskBody, failure};

/// How long nobody takes the place of a killed process, at most.
const ABSENCE_MS: u64 = 1_000;
/// How many times a stop is tried at a moment at which the process writes nothing.
const TRIES: usize = 2_000;
/// How long a process may take to stand still. One that waits for its disk does not stop before.
const STOPS_WITHIN: Duration = seconds(5);

/// SIGKILL of one worker process. Its sudden end shows that it happened.
pub(super) async fn kill_worker(stage: &mut Stage) -> Result<bool> {
    let victim = stage.dice.usize(..stage.workers.len());
    let absence = stage.dice.u64(..ABSENCE_MS);
    // It holds the task until it is killed, however late that is.
    occupy(stage, victim, TaskBody::Hang).await?;
    let Some(name) = stage.workers.get(victim).map(|w| w.name().to_owned()) else {
        return Ok(false);
    };
    let explains = vec![Explains::LostLock];
    let open = stage.begin(&Kind::KillWorker.name(), Target::Process(name), explains);
    let Some(worker) = stage.workers.get_mut(victim) else {
        return Ok(false);
    };
    let killed = replace(worker, absence).await?;
    stage.end(&open);
    Ok(killed)
}

/// SIGKILL of one submitter process.
pub(super) async fn kill_submitter(stage: &mut Stage) -> Result<bool> {
    let victim = stage.dice.usize(..stage.submitters.len());
    let absence = stage.dice.u64(..ABSENCE_MS);
    let Some(name) = stage.submitters.get(victim).map(|s| s.name().to_owned()) else {
        return Ok(false);
    };
    let open = stage.begin(
        &Kind::KillSubmitter.name(),
        Target::Process(name),
        Vec::new(),
    );
    let Some(submitter) = stage.submitters.get_mut(victim) else {
        return Ok(false);
    };
    let killed = replace(submitter, absence).await?;
    stage.end(&open);
    Ok(killed)
}

async fn replace(process: &mut Process, absence_ms: u64) -> Result<bool> {
    let killed = process.kill();
    tokio::time::sleep(millis(absence_ms)).await;
    process.restart()?;
    process.up().await?;
    Ok(killed)
}

/// SIGKILL of all worker processes at once.
pub(super) async fn kill_all_workers(stage: &mut Stage) -> Result<bool> {
    let absence = stage.dice.u64(..ABSENCE_MS);
    let explains = vec![Explains::LostLock];
    let open = stage.begin(&Kind::KillAllWorkers.name(), Target::Store, explains);
    let mut killed = true;
    for worker in &mut stage.workers {
        worker.signal(Signal::KILL)?;
    }
    for worker in &mut stage.workers {
        killed &= worker.gone().await?.code().is_none();
    }
    tokio::time::sleep(millis(absence)).await;
    for worker in &mut stage.workers {
        worker.restart()?;
    }
    for worker in &mut stage.workers {
        worker.up().await?;
    }
    stage.end(&open);
    Ok(killed)
}

/// SIGSTOP of one worker process, for less or more than its locks last; then SIGCONT. The kernel's
/// view of the process shows that it happened.
pub(super) async fn pause(kind: Kind, stage: &mut Stage) -> Result<bool> {
    let lock = stage.lock_ms;
    let victim = stage.dice.usize(..stage.workers.len());
    let (span, body, explains) = match kind {
        Kind::PauseShort => (
            stage.dice.u64(lock / 8..lock / 4),
            TaskBody::Work(lock / 2),
            Vec::new(),
        ),
        _ => (
            stage.dice.u64(lock + 200..lock * 2),
            TaskBody::Hang,
            vec![Explains::LostLock],
        ),
    };
    occupy(stage, victim, body).await?;
    let Some(worker) = stage.workers.get(victim) else {
        return Ok(false);
    };
    let (name, pid) = (worker.name().to_owned(), worker.pid());
    let open = stage.begin(&kind.name(), Target::Process(name), explains);
    let Some(worker) = stage.workers.get(victim) else {
        return Ok(false);
    };
    stop(stage, worker).await?;
    tokio::time::sleep(millis(span)).await;
    let stopped = is_stopped(pid)?;
    worker.signal(Signal::CONT)?;
    stage.end(&open);
    Ok(stopped)
}

/// Whether all threads of a process stand still, as the kernel sees them.
fn is_stopped(pid: u32) -> std::io::Result<bool> {
    for thread in std::fs::read_dir(format!("/proc/{pid}/task"))? {
        let status = match std::fs::read_to_string(thread?.path().join("stat")) {
            Ok(status) => status,
            // It has ended meanwhile.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
            Err(error) => return Err(error),
        };
        let state = status.rsplit(')').next().map(str::trim_start);
        if !state.is_some_and(|state| state.starts_with('T')) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Stops the process, but not within a write to an `SQLite` file: that would stop everybody.
async fn stop(stage: &Stage, worker: &Process) -> Result<()> {
    if stage.store != StoreKind::Sqlite {
        return worker.signal(Signal::STOP);
    }
    let file = rusqlite::Connection::open(stage.data.join("tasks.sqlite"))?;
    file.busy_timeout(millis(0))?;
    for _ in 0..TRIES {
        worker.signal(Signal::STOP)?;
        // A thread that is in the kernel may still get the lock there before it stops.
        let began = Instant::now();
        while !is_stopped(worker.pid())? && began.elapsed() < STOPS_WITHIN {
            tokio::time::sleep(millis(1)).await;
        }
        // Another process may be writing; then nothing is known, and it is tried again.
        if file.execute_batch("BEGIN IMMEDIATE; ROLLBACK").is_ok() {
            return Ok(());
        }
        worker.signal(Signal::CONT)?;
        tokio::time::sleep(millis(1)).await;
    }
    failure("the process was writing whenever it was stopped")
}
