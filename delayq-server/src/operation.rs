//! Operations that every door offers, each with the checks that they have in common.

pub(crate) mod callee;
pub(crate) mod target;

mod all_change;
mod dead_change;
mod wanted_dead;
mod wanted_tasks;

pub(crate) use all_change::AllChange;
pub(crate) use dead_change::DeadChange;
pub(crate) use wanted_dead::WantedDead;
pub(crate) use wanted_tasks::WantedTasks;
