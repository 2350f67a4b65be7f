//! A clock that is wrong: a small library, built here and preloaded into a process, which adds a number
//! from a file to the time of day. The monotonic clock stays right.

use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use delayq_plugin::millis;

use super::Kind;
use crate::event::{Explains, Target};
use crate::run::{Preload, Result, Server, Stage, StoreKind, build_library};

/// The library.
const SOURCE: &str = include_str!("clock.c");

/// The library, built.
#[derive(Debug)]
pub(crate) struct Clock {
    folder: PathBuf,
    library: PathBuf,
}

impl Clock {
    /// Builds the library if one of `kinds` needs it.
    pub(crate) fn build(folder: &Path, kinds: &[Kind]) -> Result<Option<Self>> {
        let needs_it = |kind: &Kind| {
            matches!(
                kind,
                Kind::WorkerClockAhead
                    | Kind::WorkerClockBehind
                    | Kind::RedisClockAhead
                    | Kind::RedisClockBehind
            )
        };
        if !kinds.iter().any(needs_it) {
            return Ok(None);
        }
        let library = build_library(folder, "clock", SOURCE)?;
        let folder = folder.to_owned();
        Ok(Some(Self { folder, library }))
    }

    /// The library, and the file with the shift of the process `name`, which is zero to begin with.
    pub(crate) fn preload(&self, name: &str) -> Result<Preload> {
        let place = self.folder.join(format!("{name}.clock"));
        std::fs::write(&place, 0_i64.to_ne_bytes())?;
        Ok(Preload {
            library: self.library.clone(),
            variable: "DELAYQ_CHAOS_CLOCK",
            place,
        })
    }
}

/// How far a clock is set, in seconds.
const SHIFT_S: i64 = 3_600;

/// Sets the clock of one worker process, or of the server, an hour ahead or behind, and back after a
/// while. The process's own answer shows that it happened: a server's `TIME`; a worker cannot be asked,
/// but reads the file directly.
pub(super) async fn shift(kind: Kind, stage: &mut Stage) -> Result<bool> {
    let span = stage.dice.u64(500..stage.lock_ms * 2);
    let victim = stage.dice.usize(..stage.workers.len());
    let of_server = matches!(kind, Kind::RedisClockAhead | Kind::RedisClockBehind);
    let ahead = matches!(kind, Kind::RedisClockAhead | Kind::WorkerClockAhead);
    let shift_s = if ahead { SHIFT_S } else { -SHIFT_S };
    // An embedded store has the clock of whoever calls it. To a server, that of a client is nothing.
    let mut explains = Vec::new();
    if of_server || stage.store == StoreKind::Sqlite {
        let ahead_ms = shift_s * 1_000;
        explains.push(Explains::StoreClock { ahead_ms });
    }
    let (name, file) = match (of_server, stage.server.as_ref(), stage.workers.get(victim)) {
        (true, Some(server), _) => (None, server.clock_file().cloned()),
        (_, _, Some(worker)) => (Some(worker.name().to_owned()), worker.clock_file().cloned()),
        _ => (None, None),
    };
    let Some(file) = file else { return Ok(false) };
    let target = match name {
        Some(name) => Target::Process(name),
        None => Target::Store,
    };
    let before = stage.server.as_ref().map_or(Ok(0), server_time)?;
    let open = stage.begin(&kind.name(), target, explains);
    set(&file, shift_s)?;
    tokio::time::sleep(millis(span)).await;
    let during = stage.server.as_ref().map_or(Ok(0), server_time)?;
    set(&file, 0)?;
    stage.end(&open);
    Ok(!of_server || (during - before).abs() > SHIFT_S / 2)
}

/// In place: the process has the file mapped.
fn set(file: &Path, seconds: i64) -> Result<()> {
    let file = std::fs::OpenOptions::new().write(true).open(file)?;
    file.write_all_at(&seconds.to_ne_bytes(), 0)?;
    Ok(())
}

fn server_time(server: &Server) -> Result<i64> {
    Ok(server.ask::<(i64, i64)>(&["TIME"])?.0)
}
