//! Nouns and contracts of delayq: tasks, locks, retry policies, workers, and the stores.
//!
//! Applications depend on `delayq-plugin`, which re-exports the items they need. This crate is for
//! authors of a store, a front end or a tool.
//!
//! The floors, each using only those named before it: [`time`], [`log_limit`], [`state`],
//! [`error`], [`name`] · [`retry`], [`fleet`], [`task`], [`job`], [`reply`], [`history`] ·
//! [`worker`], [`registry`], [`extract`] · [`store`], [`operate`], [`presence`], [`chronicle`],
//! [`documents`], [`replies`] (the contract) · [`machine`] (its decisions) · [`memory`] (its
//! executable specification).

pub mod chronicle;
pub mod documents;
pub mod error;
pub mod extract;
pub mod fleet;
pub mod history;
pub mod job;
pub mod log_limit;
pub mod machine;
pub mod memory;
pub mod name;
pub mod operate;
pub mod presence;
mod redacted;
pub mod registry;
pub mod replies;
pub mod reply;
pub mod retry;
pub mod state;
pub mod store;
pub mod task;
pub mod time;
pub mod worker;

pub use chronicle::Chronicle;
pub use delayq_transaction::SqlTransaction;
pub use documents::Documents;
pub use error::{Error, Result};
pub use extract::{Component, IntoTaskResult, Json};
pub use fleet::{FleetLimits, Rate};
pub use history::Ends;
pub use job::{DelayQueueJob, Expiry, IntoDelay, IntoTime, Limits, NewTask, OnConflict, When};
pub use name::{Namespace, TaskId, TaskType, TypePattern};
pub use operate::Operate;
pub use presence::Presence;
pub use registry::{Components, FromComponents, WorkerRegistration};
pub use replies::Replies;
pub use reply::{KeptReply, Reply};
pub use retry::{Backoff, RetryPolicy};
pub use state::TaskState;
pub use store::{Bucket, Store};
pub use task::{AttemptHistory, ClaimedTask, Lock, PastError, TaskDetail, TaskInfo, WaitsFor};
#[cfg(any(test, feature = "test-util"))]
pub use time::VirtualClock;
pub use time::{Clock, SystemClock, Timestamp, days, hours, millis, minutes, seconds};
pub use worker::{
    Delivery, LatePolicy, OnLate, StopSignal, TaskContext, TaskError, TaskResult, TaskWorker,
    Versioned, WorkerOptions,
};

#[doc(hidden)]
#[path = "private.rs"]
pub mod __private;
