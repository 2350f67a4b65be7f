//! Operations that every door offers, each with the checks that they have in common.

pub mod callee;
pub mod target;

mod all_change;
mod change;
mod dead_change;
mod submit;
#[cfg(test)]
mod tests;
mod wanted_dead;
mod wanted_tasks;

pub use all_change::AllChange;
pub use change::{reschedule, update};
pub use dead_change::DeadChange;
pub use submit::{Batch, Submission, Submitted, submit, submit_one};
pub use wanted_dead::WantedDead;
pub use wanted_tasks::WantedTasks;
