//! What was accepted, and what has to come of it.

use std::collections::BTreeMap;

/// Of each task, by type and id, what has to come of it.
pub(crate) type Ledger = BTreeMap<(String, String), Expected>;

/// What has to come of a task.
#[derive(Clone, Debug)]
pub(crate) struct Expected {
    /// The instance that sent it first.
    pub(crate) sender: String,
    /// How often it is done.
    pub(crate) done: Done,
    /// Its last message.
    pub(crate) message: String,
    /// It does not start before, ms since the epoch.
    pub(crate) not_before: i64,
}

/// How often a task is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Done {
    /// So often.
    Times(usize),
    /// It started once, and its end is not known: its process was killed, or it failed.
    StartedOnce,
    /// It started, and never succeeds: it was cancelled or discarded then.
    StartedInVain,
}
