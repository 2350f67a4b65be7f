//! Statements on the rows of tasks.

use super::task_record::select_records;
use super::task_row::select_rows;

/// The log of errors with a line (not NULL) in front, cut to a maximum number of characters. The
/// line ends with the holder, but only if its fence is that of the lock: a process of an earlier
/// release leaves an earlier lock's holder.
macro_rules! noted {
    ($line:literal, $most:literal) => {
        concat!(
            "coalesce(substr(",
            $line,
            " || CASE substr(holder, 1, instr(holder, ' ') - 1) WHEN CAST(fence AS TEXT) THEN ",
            "substr(holder, instr(holder, ' ') + 1) ELSE '-' END || char(10) || ",
            "coalesce(errors, ''), 1, ",
            $most,
            "), errors)"
        )
    };
}

pub(super) const SELECT_ROW: &str = select_rows!("WHERE type = ?1 AND id = ?2");
pub(super) const SELECT_RECORD: &str = select_records!("WHERE type = ?1 AND id = ?2");
pub(super) const SELECT_FIRST: &str = "SELECT at FROM tasks INDEXED BY tasks_place WHERE type = ?1 AND state \
     = ?2 ORDER BY at, id LIMIT 1";
pub(super) const INSERT: &str = "INSERT INTO tasks (type, id, state, at, due, delay, submitted, expires_at, \
     expires_after, checksum, headers, message) VALUES (?1, ?2, 0, ?3, ?3, ?4, ?5, ?6, ?7, ?8, \
     ?9, ?10) ON CONFLICT DO NOTHING";
pub(super) const UPDATE_MESSAGE: &str =
    "UPDATE tasks SET checksum = ?2, message = ?3, headers = ?4 WHERE seq = ?1";
pub(super) const EXTEND: &str = "UPDATE tasks SET at = ?2, holder = coalesce(replace(holder, ' alone', ''), \
     fence || ' ') || ?3 WHERE seq = ?1";
pub(super) const LOCK: &str = "UPDATE tasks SET state = 1, at = ?2, fence = ?3, lock_expiries = ?4, holder = \
     ?5 WHERE seq = ?1";
pub(super) const TAKE_OVER: &str = concat!(
    "UPDATE tasks SET at = ?2, fence = ?3, lock_expiries = ?4, holder = ?5, errors = ",
    noted!("?6", "?7"),
    ", releases = ?8 WHERE seq = ?1"
);
pub(super) const UPDATE: &str = concat!(
    "UPDATE tasks SET state = ?2, at = ?3, due = ?4, delay = ?5, fence = ?6, settled = ?7, ",
    "cancel = ?8, failures = ?9, lock_expiries = ?10, releases = ?11, requeues = ?12, ",
    "last_error = coalesce(?13, last_error), succeeded = CASE WHEN ?14 THEN ?15 ELSE succeeded ",
    "END, errors = ",
    noted!("?16", "?17"),
    ", settled_by = ?18, note = coalesce(?19, note) WHERE seq = ?1"
);
pub(super) const BURY: &str = "UPDATE tasks SET id = ?2, state = 2, at = ?3, fence = 0, cancel = 0, \
     last_error = ?4 WHERE seq = ?1";
pub(super) const DELETE: &str = "DELETE FROM tasks WHERE seq = ?1";
pub(super) const END: &str = "UPDATE tasks SET state = ?2, at = ?3, attempt = ?4, settled = ?5, fence = 0, \
     cancel = 0, last_error = NULL, succeeded = NULL, headers = NULL, message = NULL, holder = \
     NULL, errors = NULL, note = NULL, settled_by = ?6 WHERE seq = ?1";
pub(super) const INSERT_BODY: &str = "INSERT OR REPLACE INTO bodies (seq, message) VALUES (?1, ?2)";
pub(super) const SELECT_BODY: &str = "SELECT message FROM bodies WHERE seq = ?1";
pub(super) const DELETE_BODY: &str = "DELETE FROM bodies WHERE seq = ?1";
