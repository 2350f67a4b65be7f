//! Rows of the file, within one transaction.
//!
//! A [`Tx`] is the transaction of a group of calls. It holds the [`TypeRow`] of each type that an
//! operation touches, and writes it back once. A [`TypeTasks`] is one type in it: every change of a
//! task's row goes through it, and is counted.

mod context;
mod end;
mod ends_change;
mod follow_up;
mod number;
mod record;
mod recorded;
mod retain;
mod statement;
mod task_record;
mod task_row;
mod tidy;
mod tx;
mod type_row;
mod type_tasks;

pub(crate) use context::Context;
pub(crate) use end::{bury, die, end_task};
pub(crate) use ends_change::{EndsChange, limit_of, set_limit};
pub(crate) use follow_up::FollowUp;
pub(crate) use number::{code, is_time, signed};
pub(crate) use recorded::record_removal;
pub(crate) use task_record::{TaskRecord, holder_of, select_records, text};
pub(crate) use task_row::{Status, TaskRow, select_rows};
pub(crate) use tidy::{adopt_requests, forget_overdue};
pub(crate) use tx::{Tx, refuse_snapshot};
pub(crate) use type_tasks::{ROWS_BYTES, Texts, TypeTasks};

#[cfg(test)]
mod tests;
