//! Operations that every door offers, each with the checks that they have in common.

pub mod callee;
pub mod target;

mod all_change;
mod dead_change;
mod wanted_dead;
mod wanted_tasks;

pub use all_change::AllChange;
pub use dead_change::DeadChange;
pub use wanted_dead::WantedDead;
pub use wanted_tasks::WantedTasks;
