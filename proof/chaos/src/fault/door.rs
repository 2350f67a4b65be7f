//! Faults of the delayq-server between the processes and their store.

use delayq_plugin::millis;
use rustix::process::Signal;

use super::Kind;
use crate::event::{Explains, Target};
use crate::run::{Result, Stage, send};

/// SIGKILL of the server, and its restart. Its sudden end shows that it happened.
pub(super) async fn kill(stage: &mut Stage) -> Result<bool> {
    let absence = stage.dice.u64(50..1_500);
    let explains = vec![Explains::LostLock];
    let open = stage.begin(&Kind::KillServer.name(), Target::Store, explains);
    let was_alive = stage.door()?.kill();
    stage.strike(&open);
    tokio::time::sleep(millis(absence)).await;
    stage.door()?.restart().await?;
    stage.end(&open);
    Ok(was_alive)
}

/// SIGSTOP of the server for up to one and a half lock times.
pub(super) async fn pause(stage: &mut Stage) -> Result<bool> {
    let lock = stage.lock_ms;
    let span = stage.dice.u64(lock / 4..lock + lock / 2);
    let explains = vec![Explains::LostLock];
    let open = stage.begin(&Kind::PauseServer.name(), Target::Store, explains);
    let pid = stage.door()?.pid();
    send(pid, Signal::STOP)?;
    tokio::time::sleep(millis(span)).await;
    let status = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
    send(pid, Signal::CONT)?;
    stage.end(&open);
    let after_name = status.rsplit(')').next();
    Ok(after_name.is_some_and(|rest| rest.starts_with(" T")))
}
