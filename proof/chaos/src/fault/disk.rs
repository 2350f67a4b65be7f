//! Faults of the store's files: a full disk, syncs that fail or take long, a bit that flips.

use std::path::Path;
use std::process::{Child, Command, Stdio};

use delayq_plugin::{DelayQueueJob, TaskState, millis, seconds};
use rusqlite::OptionalExtension;
use rustix::process::Signal;

use super::Kind;
use super::server::explains_crash;
use crate::event::{Explains, Target};
use crate::run::{Message, Open, Result, Stage, TaskBody, failure, own_type, send};

/// How large the store's own disk is: enough for the longest run.
pub(crate) const DISK: &str = "size=1g";
/// Set for a run that has been started again where it may mount a disk.
pub(crate) const UNSHARED: &str = "DELAYQ_CHAOS_UNSHARED";

/// Leaves no room on the store's disk, then frees it again. A write of our own that finds no room
/// shows that it happened.
pub(super) async fn full(stage: &mut Stage) -> Result<bool> {
    let span = stage.dice.u64(500..2_000);
    let filler = stage.data.join("filler");
    let mut explains = explains_crash(stage.store);
    explains.push(Explains::LostLock);
    explains.dedup();
    let mut open = stage.begin(&Kind::DiskFull.name(), Target::Store, explains);
    fill(&filler)?;
    let probe = stage.data.join("probe");
    let refused = std::fs::write(&probe, [7; 8_192]).is_err();
    tokio::time::sleep(millis(span)).await;
    std::fs::remove_file(&filler)?;
    // Where there was nothing left, there may be no file.
    let _ = std::fs::remove_file(&probe);
    revive(stage, &mut open).await?;
    if let Some(server) = &stage.server {
        // As docs/reliability.md has it: its file may have a hole, with which it would not start
        // again.
        server.rewrite_file().await?;
    }
    stage.end(&open);
    Ok(refused)
}

/// Takes all the room at once, then what is left of it, piece by piece.
fn fill(filler: &Path) -> Result<()> {
    use std::io::Write;
    let mut free = 1_u64 << 30;
    let mut file = std::fs::File::create(filler)?;
    while free >= 4_096 {
        let mut fallocate = Command::new("fallocate");
        fallocate.args(["--keep-size", "--offset"]);
        let used = blocks(&file)?;
        fallocate
            .args([&used.to_string(), "--length", &free.to_string()])
            .arg(filler);
        if !fallocate.stderr(Stdio::null()).status()?.success() {
            free /= 2;
        }
    }
    file.write_all(b"full")?;
    Ok(())
}

fn blocks(file: &std::fs::File) -> Result<u64> {
    use std::os::unix::fs::MetadataExt;
    Ok(file.metadata()?.blocks() * 512)
}

/// A server that syncs always ends itself when a write or a sync fails. One that syncs every second
/// refuses all writes, and `PING`, from then on: a failed sync is tried again only with the next
/// write.
async fn revive(stage: &mut Stage, open: &mut Open) -> Result<()> {
    let Some(server) = stage.server.as_mut() else {
        return Ok(());
    };
    if server.is_alive() {
        // It takes writes again once its next sync has succeeded.
        tokio::time::sleep(seconds(1)).await;
    }
    if server.ask::<String>(&["PING"]).is_ok() {
        // It has lost nothing of its memory.
        open.spares();
        return Ok(());
    }
    server.kill();
    stage.strike(open);
    stage.server()?.restart().await
}

/// Has the kernel fail or delay the syncs of the process that writes the store's files. The
/// injector's own log shows that it happened.
pub(super) async fn sync(kind: Kind, stage: &mut Stage) -> Result<bool> {
    let span = stage.dice.u64(800..2_000);
    let victim = stage
        .dice
        .usize(..stage.workers.len() + stage.submitters.len());
    let (target, pid) = match stage.server.as_ref() {
        Some(server) => (Target::Store, server.pid()),
        None => match stage.processes().nth(victim) {
            Some(process) => (Target::Process(process.name().to_owned()), process.pid()),
            None => return Ok(false),
        },
    };
    let (inject, explains) = match kind {
        Kind::SyncError => ("error=EIO", explains_crash(stage.store)),
        _ => ("delay_enter=200000", vec![Explains::LostLock]),
    };
    // A writer that waits for its disk keeps everybody else waiting.
    let target = if kind == Kind::SyncDelay {
        Target::Store
    } else {
        target
    };
    let mut open = stage.begin(&kind.name(), target, explains);
    let log = stage.data.with_file_name(format!("strace.{}", open.id));
    let mut injector = trace(pid, inject, &log)?;
    tokio::time::sleep(millis(span)).await;
    // A store that syncs once a second may not have done so meanwhile.
    for _ in 0..300 {
        if has_injected(&log) {
            break;
        }
        tokio::time::sleep(millis(10)).await;
    }
    // It may have ended with what it traces.
    let _ = send(injector.id(), Signal::INT);
    for _ in 0..500 {
        if injector.try_wait()?.is_some() {
            break;
        }
        tokio::time::sleep(millis(10)).await;
    }
    revive(stage, &mut open).await?;
    stage.end(&open);
    Ok(has_injected(&log))
}

fn has_injected(log: &Path) -> bool {
    // The injector makes it.
    let seen = std::fs::read_to_string(log).unwrap_or_default();
    seen.contains("INJECTED") || seen.contains("DELAYED")
}

fn trace(pid: u32, inject: &str, log: &Path) -> Result<Child> {
    let calls = "fsync,fdatasync,sync_file_range";
    let mut strace = Command::new("setpriv");
    strace.args([
        "--pdeathsig",
        "INT",
        "strace",
        "-f",
        "-e",
        &format!("trace={calls}"),
    ]);
    strace
        .args([
            "-e",
            &format!("inject={calls}:{inject}"),
            "-p",
            &pid.to_string(),
            "-o",
        ])
        .arg(log);
    Ok(strace
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()?)
}

/// Flips a bit of one task's stored message. The task must go to dead, and say why.
pub(super) async fn flip_bit(stage: &mut Stage) -> Result<bool> {
    let Some(worker) = stage.workers.first() else {
        return Ok(false);
    };
    let task_type = own_type(worker.name());
    let id = format!("flip-{}", stage.dice.u32(..));
    // Short enough to stand in the task's own record, in every store.
    let (body, padding) = (TaskBody::Work(0), "sound".to_owned());
    // Far enough away that the record is still there when a busy machine comes to damage it.
    let job = DelayQueueJob::new(&task_type, &Message { body, padding })?
        .id(id.clone())
        .after(millis(3_000));
    let target = Target::Task(format!("{task_type}/{id}"));
    stage.send(job).await?;
    let open = stage.begin(&Kind::BitFlip.name(), target, vec![Explains::Damage]);
    if !damage(stage, &task_type, &id)? {
        // It ran before it could be damaged.
        stage.end(&open);
        return Ok(false);
    }
    let mut seen = None;
    for _ in 0..3_000 {
        let found = stage.find(&task_type, &id).await?;
        seen = found.map(|task| (task.state, task.history.last_error));
        if let Some((TaskState::Dead, Some(_))) = seen {
            stage.end(&open);
            return Ok(true);
        }
        tokio::time::sleep(millis(10)).await;
    }
    failure(format!("{task_type}/{id} was damaged and is {seen:?}"))
}

/// Whether it was there to be damaged.
fn damage(stage: &mut Stage, task_type: &str, id: &str) -> Result<bool> {
    let bit = stage.dice.u8(..8);
    let flip = |record: &mut Vec<u8>| match record.last_mut() {
        Some(byte) => *byte ^= 1 << bit,
        None => record.push(bit),
    };
    let Some(server) = stage.server.as_ref() else {
        let file = rusqlite::Connection::open(stage.data.join("tasks.sqlite"))?;
        file.busy_timeout(seconds(5))?;
        let select = "SELECT message FROM tasks WHERE id = ?1 AND message IS NOT NULL";
        let found = file.query_row(select, [id], |row| row.get::<_, Vec<u8>>(0));
        let Some(mut record) = found.optional()? else {
            return Ok(false);
        };
        flip(&mut record);
        // One that runs was read before it was damaged.
        let update = "UPDATE tasks SET message = ?1 WHERE id = ?2 AND state = 0";
        return Ok(file.execute(update, (record, id))? == 1);
    };
    let mut connection = server.connect()?;
    let pattern = format!("*/{task_type}}}:tasks");
    let (_, keys): (u64, Vec<String>) = redis::cmd("SCAN")
        .arg(&["0", "MATCH", &pattern, "COUNT", "10000"])
        .query(&mut connection)?;
    let Some(key) = keys.first() else {
        return failure(format!("no key like {pattern}"));
    };
    let found: Option<Vec<u8>> = redis::cmd("HGET").arg(&[key, id]).query(&mut connection)?;
    let Some(mut record) = found else {
        return Ok(false);
    };
    flip(&mut record);
    redis::cmd("HSET")
        .arg(key)
        .arg(id)
        .arg(record)
        .exec(&mut connection)?;
    Ok(true)
}

/// Mounts a small disk on `folder`.
pub(crate) fn mount(folder: &Path) -> Result<()> {
    let mut mount = Command::new("mount");
    mount.args(["-t", "tmpfs", "-o", DISK, "none"]).arg(folder);
    if mount.status()?.success() {
        return Ok(());
    }
    failure("no disk can be mounted, although it could be before")
}

/// Whether this process could mount a disk where nobody else sees it.
pub(crate) fn can_mount() -> bool {
    let Ok(folder) = tempfile::tempdir() else {
        return false;
    };
    let mut unshare = unshare();
    unshare
        .args(["mount", "-t", "tmpfs", "none"])
        .arg(folder.path());
    unshare
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

/// The beginning of a command that runs where it may mount.
pub(crate) fn unshare() -> Command {
    let mut unshare = Command::new("unshare");
    unshare.args(["--map-root-user", "--mount"]);
    unshare
}

/// Copies the store's files off their disk, which goes with the run.
pub(crate) fn save(data: &Path) -> Result<()> {
    let kept = data.with_file_name("store-kept");
    Command::new("cp").arg("-r").arg(data).arg(kept).status()?;
    Ok(())
}

/// Takes the small disk off `folder` again, with whatever is on it. Whoever still has a file of it
/// open keeps that.
pub(crate) fn unmount(folder: &Path) -> Result<()> {
    let unmounted = Command::new("umount").arg("--lazy").arg(folder).status()?;
    if unmounted.success() {
        return Ok(());
    }
    failure("the small disk cannot be taken off again")
}
