//! Operations of all entries, with their common checks.

pub mod batches;
pub mod callee;
pub mod policy;
pub mod recurring;
pub mod target;

mod all_change;
mod cancel;
mod change;
mod dead_change;
mod follow_up;
mod history;
mod settle;
mod submit;
#[cfg(test)]
mod tests;
mod wanted_dead;
mod wanted_tasks;

pub use all_change::AllChange;
pub use cancel::cancel_each;
pub use change::{reschedule, update};
pub use dead_change::DeadChange;
pub use follow_up::FollowUp;
pub use history::{concerns, find, forget_history, no_task, search_history, what_became_of};
pub use settle::{FinishedAttempt, settle};
pub use submit::{Batch, Submission, Submitted, submit, submit_one};
pub use wanted_dead::WantedDead;
pub use wanted_tasks::WantedTasks;
