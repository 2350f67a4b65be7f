//! Connections to the file: how it is opened, synced, waited for, and checked from outside.

pub(crate) mod busy;
pub(crate) mod file;
pub(crate) mod open;
pub(crate) mod reserve;
pub(crate) mod signal;
pub(crate) mod sync;
