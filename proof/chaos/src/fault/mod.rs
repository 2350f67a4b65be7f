//! What is done to a run: how each kind of fault is begun and ended, and how it shows that it
//! happened.

use std::process::Command;

mod clock;
mod code;
mod connection;
mod disk;
mod door;
mod kind;
mod nodes;
mod postgres;
mod process;
mod server;
mod watched;

pub(crate) use clock::Clock;
pub(crate) use disk::{UNSHARED, can_mount, mount, save, unmount, unshare};
pub use kind::Kind;

use crate::run::{Result, Stage};

/// What this machine lacks to do a kind of fault.
pub(crate) fn missing(kind: Kind) -> Option<String> {
    let has = |program: &str, option: &str| {
        let output = Command::new(program).arg(option).output();
        output.is_ok_and(|output| output.status.success())
    };
    match kind {
        Kind::DiskFull if std::env::var_os(UNSHARED).is_none() && !can_mount() => {
            Some("this user may not mount a small disk".to_owned())
        }
        Kind::SyncError | Kind::SyncDelay if !has("strace", "--version") => {
            Some("strace is not installed (Debian: apt-get install strace)".to_owned())
        }
        Kind::WorkerClockAhead
        | Kind::WorkerClockBehind
        | Kind::RedisClockAhead
        | Kind::RedisClockBehind
            if !has("cc", "--version") =>
        {
            Some("there is no C compiler".to_owned())
        }
        _ => None,
    }
}

/// Does one fault, from its beginning to its end. Says whether it showed that it had happened.
pub(crate) async fn inflict(kind: Kind, stage: &mut Stage) -> Result<bool> {
    match kind {
        Kind::KillWorker => process::kill_worker(stage).await,
        Kind::KillSubmitter => process::kill_submitter(stage).await,
        Kind::KillAllWorkers => process::kill_all_workers(stage).await,
        Kind::PauseShort | Kind::PauseLong => process::pause(kind, stage).await,
        Kind::KillRedis => server::kill(stage).await,
        Kind::PauseRedis => server::pause(stage).await,
        Kind::KillPostgres => postgres::kill(stage).await,
        Kind::PausePostgres => postgres::pause(stage).await,
        Kind::EndSessions => postgres::end_sessions(stage),
        Kind::HoldSnapshot => postgres::hold_snapshot(stage).await,
        Kind::CutBefore | Kind::CutAfter => connection::cut(kind, stage).await,
        Kind::DelayReplies => connection::delay(stage).await,
        Kind::ClientKill => server::client_kill(stage),
        Kind::ClientPause => server::client_pause(stage).await,
        Kind::ScriptFlush => server::script_flush(stage).await,
        Kind::DebugSleep => server::debug_sleep(stage),
        Kind::MemoryFull => server::memory_full(stage).await,
        Kind::EvictionPolicy => server::eviction_policy(stage).await,
        Kind::DiskFull => disk::full(stage).await,
        Kind::SyncError | Kind::SyncDelay => disk::sync(kind, stage).await,
        Kind::WorkerClockAhead
        | Kind::WorkerClockBehind
        | Kind::RedisClockAhead
        | Kind::RedisClockBehind => clock::shift(kind, stage).await,
        Kind::WorkerPanics
        | Kind::WorkerBlocks
        | Kind::WorkerHangs
        | Kind::WorkerAborts
        | Kind::RuntimeBlocked => code::misbehave(kind, stage).await,
        Kind::KillMaster | Kind::StopMaster | Kind::CutMaster => {
            watched::replace_master(kind, stage).await
        }
        Kind::KillReplica if stage.nodes().is_ok() => nodes::kill_replica(stage).await,
        Kind::KillReplica => watched::kill_replica(stage).await,
        Kind::KillSentinel => watched::kill_sentinel(stage).await,
        Kind::KillNode | Kind::StopNode => nodes::replace(kind, stage).await,
        Kind::CutNode => nodes::cut(stage).await,
        Kind::MoveSlot => nodes::move_slot(stage).await,
        Kind::AddNode => nodes::add(stage).await,
        Kind::AddShards => nodes::add_shards(stage).await,
        Kind::KillServer => door::kill(stage).await,
        Kind::PauseServer => door::pause(stage).await,
        Kind::BitFlip => disk::flip_bit(stage).await,
    }
}
