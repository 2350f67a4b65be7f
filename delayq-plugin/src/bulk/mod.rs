//! Bulk operations: tasks counted, listed, cancelled and moved by a filter, in slices.
//!
//! Everything is built on a store's pages and its operations by id, so every store has it. The cost
//! grows with the tasks of the type that are in the state, not with those that match.

mod change;
mod desk;
mod each;
mod error;
mod filter;
mod pause;
mod query;
mod report;
mod target;
mod walk;

pub use change::BulkChange;
pub(crate) use desk::Desk;
pub(crate) use each::cancel_each;
pub use error::BulkError;
pub use filter::TaskFilter;
pub(crate) use pause::{pause, resume};
pub(crate) use query::{count, list_by, matching_types};
pub use report::BulkReport;
