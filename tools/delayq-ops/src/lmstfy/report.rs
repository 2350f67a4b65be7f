//! Report of a move.

use serde::Serialize;

/// The result of a move from lmstfy, or its progress so far.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct LmstfyReport {
    /// Jobs that are new in the store.
    pub moved: u64,
    /// Jobs that the store already had, from an interrupted move.
    pub existing: u64,
    /// Jobs whose time to live was over.
    pub expired: u64,
    /// Jobs that consumers held at the last look, and that are left to them.
    pub taken_left: u64,
    /// Dead jobs that were left out.
    pub dead_left_out: u64,
    /// Jobs that the store refused; they wait in the list `delayq-import/refused`.
    pub refused: u64,
    /// The reason why the last of them was refused.
    pub refusal: Option<String>,
}
