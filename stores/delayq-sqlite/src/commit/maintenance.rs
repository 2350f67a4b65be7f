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

/// How often the writer checks for commits of other processes, whether signalled or not. An earlier
/// task that they submitted starts here at most this much too late. A check costs microseconds and
/// reads no file.
pub(crate) const CHECK_EVERY: Duration = Duration::from_millis(100);

/// How often the writer forgets ended tasks of types in which nothing ends any more.
const TIDY_UP: Duration = Duration::from_secs(1);

/// Maximum number of ended tasks of a type forgotten at a time: some milliseconds of work.
const TIDY_TASKS: usize = 1_000;

/// The pause after a look at the first tasks, as a multiple of the time that the look took: with
/// many types it must not keep the writer from its work.
const LOOK_PAUSE: u32 = 20;

/// How long maintenance waits for the write lock; the next run tries again.
const LOCK_WAIT: Duration = Duration::from_millis(50);

/// The first task of each type.
const HEADS: &str = "SELECT name, (SELECT at || ' ' || id FROM tasks \
     WHERE type = types.id AND state = 0 ORDER BY at, id LIMIT 1) AS head \
     FROM types WHERE namespace = ?1 AND scheduled > 0";

/// Schedule of the maintenance, and its last observations.
#[derive(Debug)]
pub(crate) struct Maintenance {
    checked: Instant,
    tidied: Instant,
    data_version: Option<i64>,
    /// True if others have committed since all handlers were last woken.
    has_news: bool,
    /// The first tasks at the last signal.
    heads: HashMap<String, Option<String>>,
    /// The earliest time of the next look at them.
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

    /// Wakes the handlers concerned by commits of other processes. Returns true if it is time to
    /// tidy up. A failure is only logged: the next call or the next run will meet it again.
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

    /// Forgets ended tasks that are due for it, and adopts left-over requests to run again.
    pub(crate) fn tidy() -> Command {
        let tidy = |tx: &mut Tx<'_>| {
            adopt_requests(tx, TIDY_TASKS)?;
            forget_overdue(tx, TIDY_TASKS)
        };
        let mut command = Command::of_nobody(LOCK_WAIT, tidy);
        command.can_peek = true;
        command
    }

    /// Wakes all handlers if another process has committed, as SQLite does not say what it changed.
    /// Between two checks it only wakes those of types whose first task has changed.
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

    /// Takes microseconds per type.
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

/// A number that changes whenever another connection has committed.
fn data_version(connection: &Connection) -> Outcome<i64> {
    let mut select = connection.prepare_cached("PRAGMA data_version")?;
    Ok(select.query_row([], |row| row.get(0))?)
}
