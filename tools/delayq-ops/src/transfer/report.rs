//! Report of a transfer.

use delayq_plugin::TaskId;
use delayq_plugin::TaskType;
use serde::Serialize;

/// Number of refusals named in a report; further ones are only counted.
const MOST_NAMED: usize = 100;

/// The result of a transfer, or its progress so far.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct TransferReport {
    /// Tasks read: from the store by an export or a copy, from the file by an import.
    pub read: u64,
    /// Tasks written: to the file, or new in the store.
    pub written: u64,
    /// Tasks that the store already had.
    pub existing: u64,
    /// Dead tasks that were left out.
    pub dead_left_out: u64,
    /// Tasks that were running when an export or a copy began, and are not included.
    pub running_left: u64,
    /// Tasks that the store refused.
    pub refused: u64,
    /// The first hundred of them.
    pub refusals: Vec<Rejected>,
}

/// A task that the store refused. The other tasks are not affected.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Rejected {
    /// The line, from 1.
    pub line: u64,
    /// The type.
    pub task_type: TaskType,
    /// The task.
    pub id: TaskId,
    /// The reason.
    pub reason: String,
}

impl TransferReport {
    pub(super) fn refuse(&mut self, refusal: Rejected) {
        self.refused += 1;
        if self.refusals.len() < MOST_NAMED {
            self.refusals.push(refusal);
        }
    }
}
