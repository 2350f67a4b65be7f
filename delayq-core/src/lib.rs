//! Nouns and contracts of delayq: tasks, locks, retry policies, workers, and the stores.
//!
//! Applications depend on `delayq-plugin`, which re-exports what they need from here. This crate is
//! for those who write a store, a front end or a tool.
//!
//! The floors, each using only what stands above it: [`time`], [`state`], [`error`], [`name`] · [`retry`],
//! [`fleet`], [`task`], [`job`] · [`worker`], [`registry`], [`extract`] · [`store`] (the contract) · the stores.

pub mod error;
pub mod extract;
pub mod fleet;
pub mod job;
pub mod name;
pub mod registry;
pub mod retry;
pub mod state;
pub mod store;
pub mod task;
pub mod time;
pub mod worker;

pub use error::{Error, Result};
pub use extract::{Component, IntoTaskResult, Json};
pub use fleet::{FleetLimits, Rate};
pub use job::{DelayQueueJob, Expiry, Limits, NewTask, OnConflict, When};
pub use name::{Namespace, TaskId, TaskType, TypePattern};
pub use registry::{Components, FromComponents, WorkerRegistration};
pub use retry::{Backoff, RetryPolicy};
pub use state::TaskState;
pub use store::Store;
pub use task::{ClaimedTask, Lock, TaskDetail, TaskInfo, Trail};
pub use time::{
    Clock, SystemClock, Timestamp, VirtualClock, days, hours, millis, minutes, seconds,
};
pub use worker::{
    Delivery, LatePolicy, OnLate, TaskContext, TaskError, TaskResult, TaskWorker, WorkerOptions,
};

#[doc(hidden)]
#[path = "private.rs"]
pub mod __private;
