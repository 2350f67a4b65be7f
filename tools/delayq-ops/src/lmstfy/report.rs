//! What a move did.

use serde::Serialize;

/// What a move from lmstfy did, or has done so far.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct LmstfyReport {
    /// Jobs that are new in the store.
    pub moved: u64,
    /// Jobs that the store had already, from a move that was interrupted.
    pub existing: u64,
    /// Jobs whose time to live was over.
    pub expired: u64,
    /// Jobs that consumers held at the last look: they are left to them.
    pub taken_left: u64,
    /// Dead jobs that were left.
    pub dead_left_out: u64,
    /// Jobs that the store refused; they wait in the list `delayq-import/refused`.
    pub refused: u64,
    /// Why the last of them was refused.
    pub refusal: Option<String>,
}
