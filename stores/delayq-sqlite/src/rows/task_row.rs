//! The part of a task's row used for the decisions of operations.

use delayq_core::error::Error;
use delayq_core::machine::{Bookkeeping, Ended, Settled};
use delayq_core::name::TaskId;
use delayq_core::state::TaskState;
use delayq_core::time::Timestamp;
use rusqlite::Row;

use super::number::{kind_of, state};
use crate::error::Outcome;

/// A query for [`TaskRow`]s, with columns in its order.
macro_rules! select_rows {
    ($rest:literal) => {
        concat!(
            "SELECT seq, state, at, due, delay, fence, settled, cancel, failures, lock_expiries, ",
            "releases, requeues, attempt, checksum, message IS NULL, settled_by FROM tasks ",
            $rest
        )
    };
}

pub(crate) use select_rows;

/// The row of a task without its message and headers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TaskRow {
    pub(crate) seq: i64,
    pub(crate) status: Status,
    pub(crate) checksum: i64,
    /// True if its message is in the table of large ones.
    pub(crate) has_body: bool,
}

/// The status of a task.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Status {
    /// Scheduled, running or dead.
    Live(Bookkeeping),
    /// Ended, and remembered for the retention.
    Ended(Ended),
    /// In an unknown state: the row is damaged.
    Unknown,
}

impl TaskRow {
    /// Reads a row of [`select_rows`].
    pub(crate) fn read(row: &Row<'_>) -> rusqlite::Result<Self> {
        let status = Status::read(row)?;
        let has_no_message: bool = row.get(14)?;
        Ok(Self {
            seq: row.get(0)?,
            status,
            checksum: row.get(13)?,
            has_body: has_no_message && matches!(status, Status::Live(_)),
        })
    }

    /// The state; `None` if it is damaged.
    pub(crate) fn state(&self) -> Option<TaskState> {
        match self.status {
            Status::Live(task) => Some(task.state),
            Status::Ended(task) => Some(task.state),
            Status::Unknown => None,
        }
    }

    /// The time by which it is ordered among those in its state.
    pub(crate) fn at(&self) -> Timestamp {
        match self.status {
            Status::Live(task) => task.at,
            Status::Ended(task) => task.at,
            Status::Unknown => Timestamp::ZERO,
        }
    }

    /// The bookkeeping, unless it has ended or is damaged.
    pub(crate) fn live(&self) -> Option<&Bookkeeping> {
        match &self.status {
            Status::Live(task) => Some(task),
            Status::Ended(_) | Status::Unknown => None,
        }
    }

    /// The state of the task `id`, if it is sound.
    pub(crate) fn sound_state(&self, id: &TaskId) -> Outcome<TaskState> {
        let advice = "its stored state is unknown: run an audit with repair";
        let unknown = || Error::corrupt(format!("task {id}"), advice);
        Ok(self.state().ok_or_else(unknown)?)
    }
}

impl Status {
    fn read(row: &Row<'_>) -> rusqlite::Result<Self> {
        let at = Timestamp::from_millis(row.get(2)?);
        let settled = settled(row)?;
        let Some(state) = state(row.get(1)?) else {
            return Ok(Self::Unknown);
        };
        if state.is_ended() {
            return Ok(Self::Ended(Ended {
                state,
                at,
                attempt: count(row, 12)?,
                settled,
            }));
        }
        Ok(Self::Live(Bookkeeping {
            state,
            at,
            asked_due: Timestamp::from_millis(row.get(3)?),
            delay_ms: row.get(4)?,
            fence: fence(row, 5)?,
            settled,
            cancel_requested: row.get::<_, i64>(7)? != 0,
            // Only a record has the column that says so.
            is_alone: false,
            failures: count(row, 8)?,
            lock_expiries: count(row, 9)?,
            releases: count(row, 10)?,
            requeues: count(row, 11)?,
        }))
    }
}

/// A stored fence. A negative one becomes larger than any issued fence, so it holds nothing.
fn fence(row: &Row<'_>, column: usize) -> rusqlite::Result<u64> {
    Ok(row.get::<_, i64>(column)?.cast_unsigned())
}

/// The last settled lock. A process of an earlier release settles a lock without its kind, and
/// leaves the kind of an earlier one.
fn settled(row: &Row<'_>) -> rusqlite::Result<Settled> {
    let fence = fence(row, 6)?;
    let code: Option<i64> = row.get(15)?;
    let by = code.and_then(|code| kind_of(code, fence));
    Ok(Settled { fence, by })
}

/// A stored count. A damaged one is clamped, so that it blocks nothing.
fn count(row: &Row<'_>, column: usize) -> rusqlite::Result<u32> {
    let count: i64 = row.get(column)?;
    Ok(u32::try_from(count.max(0)).unwrap_or(u32::MAX))
}
