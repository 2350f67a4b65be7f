//! Faults of the Redis server: killed, stopped, busy, and told to forget, to refuse or to evict.

use std::time::{Duration, Instant};

use delayq_plugin::{Error, millis};
use rustix::process::Signal;

use super::Kind;
use crate::event::{Explains, Target};
use crate::run::{Result, Stage, StoreKind, failure, send};

/// What a SIGKILL of a server that syncs every second may cost, at most: the README says up to two
/// seconds on a slow disk.
pub(super) const EVERYSEC_WINDOW_MS: u64 = 2_000;

/// How long the callers may take to find their scripts gone: they call all the time, unless the
/// machine stands still.
const SHOWS_WITHIN: Duration = Duration::from_secs(10);

/// What the loss of a server's memory explains.
pub(super) fn explains_crash(store: StoreKind) -> Vec<Explains> {
    match store {
        StoreKind::RedisEverysec => {
            let window_ms = EVERYSEC_WINDOW_MS;
            vec![Explains::LostLock, Explains::Rollback { window_ms }]
        }
        _ => vec![Explains::LostLock],
    }
}

/// SIGKILL of the server, and its restart on the same data. Its sudden end shows that it happened.
pub(super) async fn kill(stage: &mut Stage) -> Result<bool> {
    let absence = stage.dice.u64(50..1_500);
    let explains = explains_crash(stage.store);
    let open = stage.begin(&Kind::KillRedis.name(), Target::Store, explains);
    let killed = stage.server()?.kill();
    // What is answered from now on, this has not undone.
    stage.strike(&open);
    let server = stage.server()?;
    tokio::time::sleep(millis(absence)).await;
    server.restart().await?;
    stage.end(&open);
    Ok(killed)
}

/// SIGSTOP of the server for up to one and a half lock times. That it does not answer shows that it
/// happened.
pub(super) async fn pause(stage: &mut Stage) -> Result<bool> {
    let lock = stage.lock_ms;
    let span = stage.dice.u64(lock / 4..lock + lock / 2);
    let open = stage.begin(
        &Kind::PauseRedis.name(),
        Target::Store,
        vec![Explains::LostLock],
    );
    let pid = stage.server()?.pid();
    send(pid, Signal::STOP)?;
    tokio::time::sleep(millis(span)).await;
    let status = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
    send(pid, Signal::CONT)?;
    stage.server()?.answers().await?;
    stage.end(&open);
    Ok(status
        .rsplit(')')
        .next()
        .is_some_and(|rest| rest.starts_with(" T")))
}

/// CLIENT KILL of every connection but the one that says so. The server counts them; one is only
/// the driver's own.
pub(super) fn client_kill(stage: &mut Stage) -> Result<bool> {
    let open = stage.begin(
        &Kind::ClientKill.name(),
        Target::Store,
        vec![Explains::LostLock],
    );
    let mut killed = 0;
    for kind in ["normal", "pubsub"] {
        killed += stage
            .server()?
            .ask::<u64>(&["CLIENT", "KILL", "TYPE", kind])?;
    }
    stage.end(&open);
    Ok(killed > 1)
}

/// CLIENT PAUSE for up to one and a half lock times. A command that waits that long shows that it
/// happened.
pub(super) async fn client_pause(stage: &mut Stage) -> Result<bool> {
    let lock = stage.lock_ms;
    let span = stage.dice.u64(lock / 4..lock + lock / 2);
    let open = stage.begin(
        &Kind::ClientPause.name(),
        Target::Store,
        vec![Explains::LostLock],
    );
    stage
        .server()?
        .ask::<()>(&["CLIENT", "PAUSE", &span.to_string(), "ALL"])?;
    let waited = Instant::now();
    stage.server()?.answers().await?;
    stage.end(&open);
    Ok(waited.elapsed() >= millis(span * 3 / 4))
}

/// SCRIPT FLUSH. Calls that find their script gone, by the server's count, show that it happened.
pub(super) async fn script_flush(stage: &mut Stage) -> Result<bool> {
    let open = stage.begin(&Kind::ScriptFlush.name(), Target::Store, Vec::new());
    let field = "errorstat_NOSCRIPT";
    let before = stage.server()?.info("errorstats", field)?;
    stage.server()?.ask::<()>(&["SCRIPT", "FLUSH"])?;
    let mut shows = false;
    let begun = Instant::now();
    while !shows && begun.elapsed() < SHOWS_WITHIN {
        tokio::time::sleep(millis(100)).await;
        shows = stage.server()?.info("errorstats", field)? > before;
    }
    stage.end(&open);
    Ok(shows)
}

/// DEBUG SLEEP: one command that keeps the server busy.
pub(super) fn debug_sleep(stage: &mut Stage) -> Result<bool> {
    let lock = stage.lock_ms;
    let span = stage.dice.u64(lock / 4..lock + lock / 2);
    let open = stage.begin(
        &Kind::DebugSleep.name(),
        Target::Store,
        vec![Explains::LostLock],
    );
    let began = Instant::now();
    let seconds = format!("{}.{:03}", span / 1_000, span % 1_000);
    stage.server()?.ask::<()>(&["DEBUG", "SLEEP", &seconds])?;
    stage.end(&open);
    Ok(began.elapsed() >= millis(span))
}

/// The memory limit set below what is used, and taken away. Commands refused for it, by the
/// server's count, show that it happened.
pub(super) async fn memory_full(stage: &mut Stage) -> Result<bool> {
    let span = stage.dice.u64(500..2_000);
    let open = stage.begin(&Kind::MemoryFull.name(), Target::Store, Vec::new());
    let before = stage.server()?.info("errorstats", "errorstat_OOM")?;
    stage
        .server()?
        .ask::<()>(&["CONFIG", "SET", "maxmemory", "1000000"])?;
    tokio::time::sleep(millis(span)).await;
    let after = stage.server()?.info("errorstats", "errorstat_OOM")?;
    stage
        .server()?
        .ask::<()>(&["CONFIG", "SET", "maxmemory", "0"])?;
    stage.end(&open);
    Ok(after > before)
}

/// A policy that would throw tasks away if memory were full. The store says so when it is asked.
pub(super) async fn eviction_policy(stage: &mut Stage) -> Result<bool> {
    let open = stage.begin(&Kind::EvictionPolicy.name(), Target::Store, Vec::new());
    let set = |policy| ["CONFIG", "SET", "maxmemory-policy", policy];
    stage.server()?.ask::<()>(&set("allkeys-lru"))?;
    let said = stage.service.store().check().await;
    tokio::time::sleep(millis(300)).await;
    stage.server()?.ask::<()>(&set("noeviction"))?;
    stage.service.store().check().await?;
    stage.end(&open);
    match said {
        Err(Error::Misconfigured { .. }) => Ok(true),
        other => failure(format!(
            "an eviction policy that throws tasks away: {other:?}"
        )),
    }
}
