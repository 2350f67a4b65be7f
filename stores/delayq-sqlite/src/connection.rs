//! Connections to the file: opening, syncing, waiting for locks, and checks from outside.

pub(crate) mod busy;
pub(crate) mod file;
pub(crate) mod open;
pub(crate) mod reserve;
pub(crate) mod signal;
pub(crate) mod sync;
