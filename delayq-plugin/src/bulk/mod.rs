//! Bulk operations: tasks counted, listed, cancelled and moved by a filter, in slices.
//!
//! Everything is built on a store's pages and its operations by id, so every store has it. The cost
//! grows with the tasks of the type that are in the state, not with those that match.

mod change;
mod error;
mod filter;
mod report;
mod service;
mod target;
mod walk;

pub use change::BulkChange;
pub use error::BulkError;
pub use filter::TaskFilter;
pub use report::BulkReport;
