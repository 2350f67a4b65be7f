//! A clock that is wrong: a small library, built here and preloaded into a process, which adds a
//! number from a file to the time of day. The monotonic clock stays right.

use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use delayq_plugin::millis;
use delayq_tests::redis_server::Environment;

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
    /// Builds the library if one of `kinds` needs it, or servers whose clocks differ.
    pub(crate) fn build(folder: &Path, kinds: &[Kind], skew_ms: u64) -> Result<Option<Self>> {
        let needs_it = |kind: &Kind| {
            matches!(
                kind,
                Kind::WorkerClockAhead
                    | Kind::WorkerClockBehind
                    | Kind::RedisClockAhead
                    | Kind::RedisClockBehind
            )
        };
        if skew_ms == 0 && !kinds.iter().any(needs_it) {
            return Ok(None);
        }
        let library = build_library(folder, "clock", SOURCE)?;
        let folder = folder.to_owned();
        Ok(Some(Self { folder, library }))
    }

    /// The library, and the file with the shift of the process `name` in milliseconds.
    pub(crate) fn preload(&self, name: &str, ahead_ms: i64) -> Result<Preload> {
        let place = self.folder.join(format!("{name}.clock"));
        std::fs::write(&place, [ahead_ms, 0].map(i64::to_ne_bytes).concat())?;
        Ok(Preload {
            library: self.library.clone(),
            variable: "DELAYQ_CHAOS_CLOCK",
            place,
        })
    }

    /// What the servers of a set find in their environment: the clock of every other one is ahead.
    pub(crate) fn skewed(&self, ahead_ms: u64) -> Result<Vec<Environment>> {
        let ahead_ms = i64::try_from(ahead_ms).unwrap_or(i64::MAX);
        let of = |server: usize| {
            let ahead_ms = if server % 2 == 1 { ahead_ms } else { 0 };
            Ok(self
                .preload(&format!("server-{server}"), ahead_ms)?
                .environment())
        };
        (0..SERVERS).map(of).collect()
    }
}

/// Servers of a set of several, and as many again that join it: more than there are.
const SERVERS: usize = 16;

/// How far a clock is set.
const SHIFT_S: i64 = 3_600;

/// Sets the clock of one worker process, or of the server, an hour ahead or behind, and back after
/// a while. The process's own answer shows that it happened: a server's `TIME`; for a worker, which
/// cannot be asked, the library counts how often it was given such a time.
pub(super) async fn shift(kind: Kind, stage: &mut Stage) -> Result<bool> {
    let span = stage.dice.u64(500..stage.lock_ms * 2);
    let victim = stage.dice.usize(..stage.workers.len());
    let of_server = matches!(kind, Kind::RedisClockAhead | Kind::RedisClockBehind);
    let ahead = matches!(kind, Kind::RedisClockAhead | Kind::WorkerClockAhead);
    let ahead_ms = if ahead { SHIFT_S } else { -SHIFT_S } * 1_000;
    // An embedded store has the clock of whoever calls it. To a server, that of a client is
    // nothing.
    let mut explains = Vec::new();
    if of_server || stage.store == StoreKind::Sqlite {
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
    let given = given(&file)?;
    set(&file, ahead_ms)?;
    tokio::time::sleep(millis(span)).await;
    let during = stage.server.as_ref().map_or(Ok(0), server_time)?;
    set(&file, 0)?;
    stage.end(&open);
    if of_server {
        return Ok((during - before).abs() > SHIFT_S / 2);
    }
    Ok(self::given(&file)? > given)
}

/// How often somebody was given a time that was shifted.
fn given(file: &Path) -> Result<i64> {
    let mut count = [0; size_of::<i64>()];
    let file = std::fs::File::open(file)?;
    file.read_exact_at(&mut count, size_of::<i64>() as u64)?;
    Ok(i64::from_ne_bytes(count))
}

/// In place: the process has the file mapped.
fn set(file: &Path, ahead_ms: i64) -> Result<()> {
    let file = std::fs::OpenOptions::new().write(true).open(file)?;
    file.write_all_at(&ahead_ms.to_ne_bytes(), 0)?;
    Ok(())
}

fn server_time(server: &Server) -> Result<i64> {
    Ok(server.ask::<(i64, i64)>(&["TIME"])?.0)
}
