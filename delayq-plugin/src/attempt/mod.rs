//! Attempts: leases, the workers of one task on the application's runtime, and their results.

mod answer;
mod deadline;
mod end_within;
mod follow_ups;
mod innermost;
mod invocation;
mod lease;
mod running_tasks;
mod suspect;
mod verdict;

pub(crate) use deadline::LeaseDeadline;
pub(crate) use end_within::WithinFlag;
pub(crate) use follow_ups::FollowUps;
pub use follow_ups::follow_up_id;
pub(crate) use innermost::Innermost;
pub(crate) use invocation::Invocation;
pub(crate) use lease::{Lease, LeaseState, LeaseStep};
pub(crate) use running_tasks::{RunningTask, RunningTasks};
pub(crate) use suspect::{AloneFlag, HeldLock, QUIET_WITHIN, Suspect};
pub(crate) use verdict::{AttemptFacts, Verdict, WorkerResult};

#[cfg(test)]
mod tests;
