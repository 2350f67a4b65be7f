//! The writer: one thread that owns the writing connection, and commits for many callers at once.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rusqlite::Connection;
use tokio::sync::broadcast;

use super::audit::{RECOUNT, REINDEX};
use super::busy;
use super::command::Command;
use super::error::{Fault, Outcome};
use super::file::OpenFiles;
use super::housekeeping::{LOOK_AROUND, Rounds};
use super::queue::{Hope, Queue, Taken};
use super::schema;
use super::tx::{Tx, World};
use crate::error::Result;
use crate::name::TaskType;
use crate::store::Wakeup;

/// Most tasks of one lane in one transaction: about 10 ms of work, which is how long a claim may have to
/// wait for submits.
pub(super) const GROUP_TASKS: usize = 1_024;

/// As many callers as shared the last transaction are waited for before the next, for a part of the time
/// that it took: a sync saved is worth more. A caller alone never waits.
const LINGER_PART: u32 = 4;

/// Longest such wait: on a slow disk, too, callers that come again do so within less.
const MAX_LINGER: Duration = Duration::from_micros(500);

type Group = Vec<Box<dyn Command>>;

/// What the writer's thread owns.
pub(super) struct Writer {
    pub(super) connection: Connection,
    pub(super) files: OpenFiles,
    pub(super) world: World,
    pub(super) queue: Arc<Queue<Box<dyn Command>>>,
    pub(super) wakeups: broadcast::Sender<Wakeup>,
    /// Transactions committed.
    pub(super) commits: Arc<AtomicU64>,
    /// Whether it has tried to mend the indexes.
    pub(super) has_mended: Cell<bool>,
    /// The threads of the readers.
    pub(super) readers: Vec<JoinHandle<()>>,
}

impl Writer {
    /// Serves the queue until it is closed, then leaves the file tidy.
    pub(super) fn run(mut self) {
        let _closing = CloseOnExit(Arc::clone(&self.queue));
        let mut rounds = Rounds::new(&self.connection);
        let mut hope = Hope::default();
        loop {
            match self.queue.take(LOOK_AROUND, hope) {
                Taken::Group(group) => hope = self.serve(group),
                Taken::Nothing => {}
                Taken::Closed => break,
            }
            rounds.make(&self);
        }
        self.close();
    }

    /// Moves the log into the file and cuts it off, unless others still use it. The last connection
    /// removes it, so the readers' have to be closed before.
    fn close(&mut self) {
        for reader in self.readers.drain(..) {
            // It has told of its panic itself.
            let _ = reader.join();
        }
        busy::wait_until(Instant::now());
        if let Err(error) = self
            .connection
            .execute_batch("PRAGMA wal_checkpoint(TRUNCATE)")
        {
            tracing::debug!(store = self.world.store, %error, "the log stays");
        }
        tracing::debug!(store = self.world.store, "closed");
    }

    /// Runs a group of commands, and answers each of them. Their callers are likely to come again.
    fn serve(&self, mut group: Group) -> Hope {
        let (commands, start) = (group.len(), Instant::now());
        group.retain(|command| command.accept());
        if !group.is_empty() && group.iter().all(|command| command.can_look()) {
            group = self.serve_by_looking(group);
        }
        self.serve_by_writing(group);
        Hope {
            commands,
            linger: (start.elapsed() / LINGER_PART).min(MAX_LINGER),
        }
    }

    /// Answers claims that find nothing without the write lock, so that idle processes write nothing.
    /// Returns the group if something has to be written.
    fn serve_by_looking(&self, mut group: Group) -> Group {
        busy::wait_until(earliest(&group));
        // A claim that fails is told so by itself, in a transaction of its own.
        if !matches!(self.look(&mut group), Ok(true)) {
            return group;
        }
        answer(group, &Ok(()));
        Group::new()
    }

    fn look(&self, group: &mut Group) -> Outcome<bool> {
        self.files.check()?;
        let snapshot = self.connection.unchecked_transaction()?;
        let mut tx = Tx::new(&snapshot, &self.world);
        for command in group {
            if !command.look(&mut tx)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Runs a group in one transaction. When a command spoils it, each one is run again by itself.
    fn serve_by_writing(&self, group: Group) {
        let Some(mut group) = self.begin(group) else {
            return;
        };
        match self.run_all(&mut group) {
            Ok(woken) => self.finish(group, woken),
            Err(fault) => {
                self.roll_back();
                self.serve_again(group, fault);
            }
        }
    }

    /// Runs each command of a group that failed by itself. A single one fails, unless the fault is an
    /// index that could be mended meanwhile.
    fn serve_again(&self, group: Group, fault: Fault) {
        let is_single = group.len() == 1;
        if is_single && !(fault.is_damage() && self.mend_indexes()) {
            return answer(group, &Err(fault.into_error(&self.world.store)));
        }
        for command in group {
            self.serve_by_writing(vec![command]);
        }
    }

    /// Makes the indexes from the rows again, so that one that leads to nothing blocks no claim; whether
    /// it could. Takes a second per million tasks; tried once, as worse damage would not let it succeed.
    fn mend_indexes(&self) -> bool {
        if self.has_mended.replace(true) {
            return false;
        }
        let mend = format!("BEGIN IMMEDIATE; {REINDEX}; {RECOUNT}; COMMIT;");
        let mended = self.connection.execute_batch(&mend);
        self.roll_back();
        let store = &self.world.store;
        match &mended {
            Ok(()) => tracing::error!(store, "an index was damaged: made again from the tasks"),
            Err(error) => tracing::error!(store, %error, "the file is damaged"),
        }
        mended.is_ok()
    }

    /// Takes the write lock. Commands that have waited for it too long are answered so.
    fn begin(&self, mut group: Group) -> Option<Group> {
        while !group.is_empty() {
            busy::wait_until(earliest(&group));
            let fault = match self.connection.prepare_cached("BEGIN IMMEDIATE") {
                Ok(mut begin) => match begin.execute([]) {
                    Ok(_) => return Some(group),
                    Err(error) => Fault::from(error),
                },
                Err(error) => Fault::from(error),
            };
            let now = Instant::now();
            let is_busy = fault.is_busy();
            let gives_up = |command: &mut Box<dyn Command>| !is_busy || command.deadline() <= now;
            let late: Group = group.extract_if(.., gives_up).collect();
            answer(late, &Err(fault.into_error(&self.world.store)));
        }
        None
    }

    fn run_all(&self, group: &mut Group) -> Outcome<Vec<TaskType>> {
        schema::check_version(&self.connection, &self.world.store)?;
        let mut tx = Tx::new(&self.connection, &self.world);
        for command in group {
            command.run(&mut tx)?;
        }
        let woken = tx.finish()?;
        self.files.check()?;
        Ok(woken)
    }

    fn finish(&self, group: Group, woken: Vec<TaskType>) {
        match self.commit() {
            Ok(()) => {
                answer(group, &Ok(()));
                for task_type in woken {
                    self.wake(Wakeup::Type(task_type));
                }
            }
            Err(error) => answer(group, &Err(error)),
        }
    }

    fn commit(&self) -> Result<()> {
        let commit = || -> Outcome<()> {
            self.connection.prepare_cached("COMMIT")?.execute([])?;
            Ok(())
        };
        commit().map_err(|fault| {
            self.roll_back();
            fault.into_commit_error(&self.world.store)
        })?;
        self.commits.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    pub(super) fn roll_back(&self) {
        // After some failures SQLite has rolled back by itself.
        if self.connection.is_autocommit() {
            return;
        }
        if let Err(error) = self.connection.execute_batch("ROLLBACK") {
            tracing::error!(store = self.world.store, %error, "rollback failed");
        }
    }

    pub(super) fn wake(&self, wakeup: Wakeup) {
        // Without a listener there is nobody to wake.
        let _ = self.wakeups.send(wakeup);
    }
}

/// When the first of them has waited too long.
fn earliest(group: &Group) -> Instant {
    let deadlines = group.iter().map(|command| command.deadline());
    deadlines.min().unwrap_or_else(Instant::now)
}

fn answer(group: Group, result: &Result<()>) {
    for command in group {
        command.answer(result.clone());
    }
}

/// Nobody waits for a thread that is gone: its queue is closed with it, even by a panic.
pub(super) struct CloseOnExit<C>(pub(super) Arc<Queue<C>>);

impl<C> Drop for CloseOnExit<C> {
    fn drop(&mut self) {
        self.0.abandon();
    }
}
