//! What is done to a run: how each kind of fault is begun and ended, and how it shows that it happened.

mod clock;
mod kind;
mod process;

pub(crate) use clock::Clock;
pub use kind::Kind;

use crate::run::{Result, Stage};

/// What this machine lacks to do a kind of fault.
pub(crate) fn missing(_kind: Kind) -> Option<String> {
    None
}

/// Does one fault, from its beginning to its end. Says whether it showed that it had happened.
pub(crate) async fn inflict(kind: Kind, stage: &mut Stage) -> Result<bool> {
    match kind {
        Kind::KillWorker => process::kill_worker(stage).await,
        Kind::KillSubmitter => process::kill_submitter(stage).await,
        Kind::KillAllWorkers => process::kill_all_workers(stage).await,
        Kind::PauseShort | Kind::PauseLong => process::pause(kind, stage).await,
        _ => Ok(true),
    }
}
