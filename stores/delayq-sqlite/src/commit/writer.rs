//! Writer: the thread that owns the writing connection and commits for many callers together.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use delayq_core::error::{Error, Result};
use delayq_core::name::TaskType;
use delayq_core::store::Wakeup;
use rusqlite::Connection;

use crate::commit::Shared;
use crate::commit::call::Command;
use crate::commit::maintenance::{CHECK_EVERY, Maintenance};
use crate::commit::queue::{CloseOnExit, Expected};
use crate::connection::busy;
use crate::connection::file::OpenFiles;
use crate::connection::reserve::{Reserve, needed};
use crate::connection::signal;
use crate::error::{Fault, Outcome};
use crate::operations::audit::{RECOUNT, REINDEX};
use crate::rows::Tx;
use crate::schema;

/// Maximum number of tasks of one lane in one transaction: about 10 ms of work, which is how long a
/// claim may have to wait for submits.
pub(crate) const GROUP_TASKS: usize = 1_024;

/// Before the next transaction the writer waits for as many callers as shared the last one, for
/// this part of the time that it took: saving a sync is worth more. A single caller never waits.
const LINGER_PART: u32 = 4;

/// Longest such wait: even on a slow disk, returning callers need less.
const MAX_LINGER: Duration = Duration::from_micros(500);

/// Longest wait for the readers of a log that has to restart.
const RESTART_WAIT: Duration = Duration::from_millis(100);

/// Free space required in the file beyond the size of new tasks, if there is no reserve.
const FREE_MARGIN: u64 = 256 << 10;

type Group = Vec<Command>;

/// State owned by the writer's thread.
pub(crate) struct Writer {
    pub(crate) connection: Connection,
    pub(crate) files: OpenFiles,
    pub(crate) reserve: Reserve,
    /// The size of the files at the last check.
    pub(crate) bytes: Cell<u64>,
    pub(crate) shared: Shared,
    /// True if it has tried to mend the indexes.
    pub(crate) has_mended: Cell<bool>,
    /// The threads of the readers.
    pub(crate) readers: Vec<JoinHandle<()>>,
}

impl Writer {
    /// Serves the queue until it is closed, then leaves the file tidy.
    pub(crate) fn run(mut self) {
        let _closing = CloseOnExit(Arc::clone(&self.shared.writes));
        let mut maintenance = Maintenance::new(&self.connection);
        let mut expected = Expected::default();
        while let Some(group) = self.shared.writes.take(CHECK_EVERY, expected) {
            if !group.is_empty() {
                expected = self.serve(group);
            }
            if maintenance.run(&self.shared, &self.connection) {
                // So that a store which gets no new tasks has its reserve, too.
                let _ = self.reserve.is_ready(self.bytes.get());
                self.serve(vec![Maintenance::tidy()]);
            }
        }
        self.close();
    }

    /// Moves the log into the file and truncates it, unless others still use it. The last
    /// connection removes the log, so the readers' connections have to be closed first.
    fn close(&mut self) {
        for reader in self.readers.drain(..) {
            // A panic of the thread is already in the log.
            let _ = reader.join();
        }
        busy::wait_until(Instant::now());
        if let Err(error) = self
            .connection
            .execute_batch("PRAGMA wal_checkpoint(TRUNCATE)")
        {
            tracing::debug!(store = self.shared.context.store, %error, "cannot truncate the write-ahead log; it stays beside the file");
        }
        // The store's own signal thread wakes up and finds the queue closed.
        signal::send(self.files.path());
        tracing::debug!(store = self.shared.context.store, "closed");
    }

    /// Runs a group of commands and answers them. Returns a forecast, as their callers are likely
    /// to return.
    pub(crate) fn serve(&self, mut group: Group) -> Expected {
        let (commands, start) = (group.len(), Instant::now());
        group.retain(Command::accept);
        if !group.is_empty() && group.iter().all(|command| command.can_peek) {
            group = self.serve_by_peeking(group);
        }
        self.serve_by_writing(self.refuse_submits(group), 0);
        Expected {
            commands,
            linger: (start.elapsed() / LINGER_PART).min(MAX_LINGER),
        }
    }

    /// Answers claims that find nothing without the write lock, so that idle processes write
    /// nothing. Returns the group if something has to be written.
    fn serve_by_peeking(&self, mut group: Group) -> Group {
        busy::wait_until(earliest(&group));
        // A claim that fails gets its own answer, in a transaction of its own.
        if self.peek(&mut group).is_err() {
            return group;
        }
        answer(group, &Ok(()));
        Group::new()
    }

    fn peek(&self, group: &mut Group) -> Outcome<()> {
        self.files.check()?;
        let snapshot = self.connection.unchecked_transaction()?;
        let mut tx = Tx::new(&snapshot, &self.shared.context);
        tx.is_snapshot = true;
        group
            .iter_mut()
            .try_for_each(|command| command.run(&mut tx))
    }

    /// Answers the submits of a group while there is no room for them. Returns the rest of the
    /// group.
    fn refuse_submits(&self, mut group: Group) -> Group {
        let submits = group.iter().filter(|command| command.is_submit());
        let wanted: u64 = submits.map(|submit| submit.size.stored_bytes()).sum();
        if wanted == 0 || self.has_room(wanted) {
            return group;
        }
        let refused: Group = group
            .extract_if(.., |command| command.is_submit())
            .collect();
        answer(refused, &Err(self.no_room()));
        group
    }

    /// True if `wanted` bytes of new tasks may be accepted: the reserve exists, or the file has
    /// enough free space that it need not grow, which a checkpoint could not make it do either.
    fn has_room(&self, wanted: u64) -> bool {
        let has_free = |free| free >= FREE_MARGIN + wanted;
        self.reserve.is_ready(self.bytes.get()) || self.free_bytes().is_ok_and(has_free)
    }

    fn free_bytes(&self) -> Outcome<u64> {
        let number = |sql: &str| -> Outcome<u64> {
            let mut select = self.connection.prepare_cached(sql)?;
            let number: i64 = select.query_row([], |row| row.get(0))?;
            Ok(number.unsigned_abs())
        };
        Ok(number("PRAGMA freelist_count")? * number("PRAGMA page_size")?)
    }

    fn no_room(&self) -> Error {
        let mib = needed(self.bytes.get()).div_ceil(1 << 20);
        Error::full(
            self.shared.context.store.as_str(),
            format!(
                "there is no room for the reserve that a full store drains with: free {mib} MiB on \
                 its disk, or purge what is not needed; only new tasks are refused until then"
            ),
        )
    }

    /// Runs a group in one transaction. If a command spoils it, each one is run again by itself.
    /// `attempts` runs of it have failed before.
    fn serve_by_writing(&self, group: Group, attempts: u32) {
        let Some(mut group) = self.begin(group) else {
            return;
        };
        let fault = match self.run_all(&mut group) {
            Ok(woken) => match self.execute("COMMIT") {
                Ok(()) => return self.finish(group, woken),
                Err(fault) if fault.is_full() => fault,
                Err(fault) => {
                    self.roll_back();
                    let error = fault.commit_error(&self.shared.context.store);
                    return answer(group, &Err(error));
                }
            },
            Err(fault) => fault,
        };
        self.roll_back();
        self.serve_again(group, &fault, attempts);
    }

    /// Runs each command of a failed group by itself. A single command fails, unless the cause
    /// could be mended meanwhile.
    fn serve_again(&self, group: Group, fault: &Fault, attempts: u32) {
        if group.len() > 1 {
            for command in group {
                self.serve_by_writing(vec![command], 0);
            }
            return;
        }
        let is_submit = group.iter().any(Command::is_submit);
        let is_mended = if fault.is_full() {
            !is_submit && self.make_room(attempts)
        } else {
            fault.is_damage() && self.mend_indexes()
        };
        if is_mended {
            return self.serve_by_writing(group, attempts + 1);
        }
        answer(group, &Err(fault.error(&self.shared.context.store)));
    }

    /// Makes room on a full disk after `attempts` attempts. Returns true if another attempt makes
    /// sense. First the log restarts, so that its space is used again; then the reserve is deleted,
    /// too.
    fn make_room(&self, attempts: u32) -> bool {
        match attempts {
            0 => {}
            1 if self.reserve.release() => {}
            _ => return false,
        }
        // A reader in another process can hold the log, but is not waited for long.
        busy::wait_until(Instant::now() + RESTART_WAIT);
        let restarted = self
            .connection
            .execute_batch("PRAGMA wal_checkpoint(RESTART)");
        if let Err(error) = restarted {
            tracing::debug!(store = self.shared.context.store, %error, "cannot restart the write-ahead log");
        }
        true
    }

    /// Rebuilds the indexes from the rows, so that a damaged entry blocks no claim. Returns true if
    /// that succeeded. Takes a second per million tasks. Tried only once: with worse damage it
    /// cannot succeed.
    fn mend_indexes(&self) -> bool {
        if self.has_mended.replace(true) {
            return false;
        }
        let mend = format!("BEGIN IMMEDIATE; {REINDEX}; {RECOUNT}; COMMIT;");
        let mended = self.connection.execute_batch(&mend);
        self.roll_back();
        let store = &self.shared.context.store;
        match &mended {
            Ok(()) => tracing::error!(store, "an index was damaged; rebuilt it from the tasks"),
            Err(error) => tracing::error!(store, %error, "the file is damaged"),
        }
        mended.is_ok()
    }

    /// Takes the write lock. Commands that have waited for it too long are answered with that
    /// error.
    fn begin(&self, mut group: Group) -> Option<Group> {
        while !group.is_empty() {
            busy::wait_until(earliest(&group));
            let Err(fault) = self.execute("BEGIN IMMEDIATE") else {
                return Some(group);
            };
            let now = Instant::now();
            let is_busy = fault.is_busy();
            let gives_up = |command: &mut Command| !is_busy || command.deadline <= now;
            let late: Group = group.extract_if(.., gives_up).collect();
            answer(late, &Err(fault.error(&self.shared.context.store)));
        }
        None
    }

    fn run_all(&self, group: &mut Group) -> Outcome<Vec<TaskType>> {
        schema::check_version(&self.connection, &self.shared.context.store)?;
        let mut tx = Tx::new(&self.connection, &self.shared.context);
        for command in group {
            command.run(&mut tx)?;
        }
        let woken = tx.finish()?;
        self.bytes.set(self.files.check()?);
        Ok(woken)
    }

    fn finish(&self, group: Group, woken: Vec<TaskType>) {
        self.shared.commits.fetch_add(1, Ordering::Relaxed);
        answer(group, &Ok(()));
        if !woken.is_empty() {
            signal::send(self.files.path());
        }
        for task_type in woken {
            self.shared.wake(Wakeup::Type(task_type));
        }
    }

    fn execute(&self, sql: &str) -> Outcome<()> {
        self.connection.prepare_cached(sql)?.execute([])?;
        Ok(())
    }

    fn roll_back(&self) {
        // After some failures SQLite has already rolled back by itself.
        if self.connection.is_autocommit() {
            return;
        }
        if let Err(error) = self.connection.execute_batch("ROLLBACK") {
            tracing::error!(store = self.shared.context.store, %error, "rollback failed");
        }
    }
}

/// The earliest deadline of the group.
fn earliest(group: &Group) -> Instant {
    let deadlines = group.iter().map(|command| command.deadline);
    deadlines.min().unwrap_or_else(Instant::now)
}

fn answer(group: Group, result: &Result<()>) {
    for command in group {
        command.answer(result.clone());
    }
}
