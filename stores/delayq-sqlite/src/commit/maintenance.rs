//! Maintenance between two groups of the writer: other processes, ended tasks, the reserve.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use delayq_core::name::TaskType;
use delayq_core::store::Wakeup;
use rusqlite::Connection;

use crate::commit::Shared;
use crate::commit::call::Command;
use crate::connection::busy;
use crate::error::Outcome;
use crate::rows::{Tx, adopt_requests, forget_overdue};

/// How often the writer checks whether other processes have committed, signal or not: a sooner task
/// that they submitted starts here at most so much too late. A check costs microseconds and reads
/// no file.
pub(crate) const CHECK_EVERY: Duration = Duration::from_millis(100);

/// How often the writer forgets ended tasks of types in which nothing ends any more.
const TIDY_UP: Duration = Duration::from_secs(1);

/// Most ended tasks of a type forgotten at a time: some milliseconds of work.
const TIDY_TASKS: usize = 1_000;

/// How many times as long as a look at the first tasks took no other one follows: with many types
/// it must not keep the writer from its work.
const LOOK_PAUSE: u32 = 20;

/// Longest wait of the maintenance for the write lock; the next run tries again.
const LOCK_WAIT: Duration = Duration::from_millis(50);

/// The first task of each type.
const HEADS: &str = "SELECT name, (SELECT at || ' ' || id FROM tasks \
     WHERE type = types.id AND state = 0 ORDER BY at, id LIMIT 1) AS head \
     FROM types WHERE namespace = ?1 AND scheduled > 0";

/// Schedule of the maintenance, and what it observed last.
#[derive(Debug)]
pub(crate) struct Maintenance {
    checked: Instant,
    tidied: Instant,
    data_version: Option<i64>,
    /// Whether others have committed since all handlers were woken.
    has_news: bool,
    /// The first tasks as of the last signal.
    heads: HashMap<String, Option<String>>,
    /// When they may be looked at again.
    next_look: Instant,
}

impl Maintenance {
    pub(crate) fn new(connection: &Connection) -> Self {
        let now = Instant::now();
        Self {
            checked: now,
            tidied: now,
            data_version: data_version(connection).ok(),
            has_news: false,
            heads: HashMap::new(),
            next_look: now,
        }
    }

    /// Wakes the handlers that have to know of other processes. Whether it is time to tidy up. A
    /// failure is logged only: the next call, or the next run, meets it again.
    pub(crate) fn run(&mut self, shared: &Shared, connection: &Connection) -> bool {
        let now = Instant::now();
        let is_signalled = shared.writes.was_signalled();
        let is_time = now.duration_since(self.checked) >= CHECK_EVERY;
        if !is_signalled && !is_time {
            return false;
        }
        busy::wait_until(now + LOCK_WAIT);
        if let Err(fault) = self.notice_commits(shared, connection, is_time) {
            let store = &shared.context.store;
            tracing::debug!(store, ?fault, "cannot check for other processes");
        }
        if !is_time {
            return false;
        }
        self.checked = now;
        if now.duration_since(self.tidied) < TIDY_UP {
            return false;
        }
        self.tidied = now;
        true
    }

    /// Forgets what is to be forgotten by now.
    pub(crate) fn tidy() -> Command {
        let tidy = |tx: &mut Tx<'_>| {
            adopt_requests(tx, TIDY_TASKS)?;
            forget_overdue(tx, TIDY_TASKS)
        };
        let mut command = Command::of_nobody(LOCK_WAIT, tidy);
        command.can_peek = true;
        command
    }

    /// Wakes all handlers when another process has committed: SQLite does not say what it changed.
    /// Between two checks those whose first task is another one.
    fn notice_commits(
        &mut self,
        shared: &Shared,
        connection: &Connection,
        is_time: bool,
    ) -> Outcome<()> {
        let seen = self.data_version.replace(data_version(connection)?);
        let is_changed = seen != self.data_version;
        self.has_news |= is_changed;
        if is_time && std::mem::take(&mut self.has_news) {
            shared.wake(Wakeup::All);
        } else if is_changed && Instant::now() >= self.next_look {
            let start = Instant::now();
            self.notice_heads(shared, connection)?;
            let now = Instant::now();
            self.next_look = now + LOOK_PAUSE * now.duration_since(start);
        }
        Ok(())
    }

    /// Costs microseconds a type.
    fn notice_heads(&mut self, shared: &Shared, connection: &Connection) -> Outcome<()> {
        let mut select = connection.prepare_cached(HEADS)?;
        let namespace = shared.context.namespace.as_str();
        let heads = select.query_map([namespace], |row| Ok((row.get(0)?, row.get(1)?)))?;
        let heads: HashMap<String, Option<String>> = heads.collect::<rusqlite::Result<_>>()?;
        for (name, head) in &heads {
            if head.is_some()
                && self.heads.get(name) != Some(head)
                && let Ok(task_type) = TaskType::new(name)
            {
                shared.wake(Wakeup::Type(task_type));
            }
        }
        self.heads = heads;
        Ok(())
    }
}

/// Changes whenever another connection has committed.
fn data_version(connection: &Connection) -> Outcome<i64> {
    let mut select = connection.prepare_cached("PRAGMA data_version")?;
    Ok(select.query_row([], |row| row.get(0))?)
}
