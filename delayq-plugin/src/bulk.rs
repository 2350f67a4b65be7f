//! Bulk operations: tasks counted, listed, cancelled and moved by a filter, in slices.
//!
//! Everything is built on a store's pages and its operations by id, so every store has it. The cost
//! grows with the tasks of the type that are in the state, not with those that match.

mod change;
mod desk;
mod pause;
mod query;

pub use change::{BulkChange, BulkError, BulkReport};
pub(crate) use desk::{Desk, cancel_each};
pub(crate) use pause::{pause, resume};
pub use query::TaskFilter;
pub(crate) use query::{count, list_by, matching_types};
