//! delayq in your process: send a task for later, run it on time, never lose it.
//!
//! See the README for a quickstart and the promises with their limits.
//!
//! The house: [`TaskSubmitService`] sends tasks · [`DelayQueuePlugin`] starts one
//! [`DelayBucketHandler`] per task type · a handler claims due tasks, runs them and settles them.

// What #[task_worker] writes begins with `::delayq_plugin`, in this crate's own tests too.
extern crate self as delayq_plugin;

mod call;
mod claim;
#[cfg(doctest)]
mod documents;
mod error;
mod fleet;
mod handler;
mod health;
mod held;
mod host;
mod plugin;
mod roster;
mod run;
mod running;
mod scheduler;
mod split;
mod submit;
mod url;

pub use delayq_core::registry::{self, MissingComponent, registered_workers};
pub use delayq_core::store;
pub use delayq_core::store::{
    AuditReport, CancelOutcome, ChangeOutcome, Cursor, DeadFilter, Durability, InstanceId,
    InstanceInfo, Page, SubmitOutcome, TypeSettings, TypeStats,
};
pub use delayq_core::{
    Backoff, Clock, Component, Components, DelayQueueJob, Delivery, Error, Expiry, FleetLimits,
    FromComponents, IntoTaskResult, Json, LatePolicy, Limits, Lock, Namespace, OnConflict, OnLate,
    Rate, Result, RetryPolicy, Store, SystemClock, TaskContext, TaskDetail, TaskError, TaskId,
    TaskInfo, TaskResult, TaskState, TaskType, TaskWorker, Timestamp, Trail, TypePattern,
    VirtualClock, When, WorkerOptions, WorkerRegistration, days, hours, millis, minutes, seconds,
};

pub use delayq_macros::task_worker;
pub use error::StartError;
pub use handler::DelayBucketHandler;
pub use health::{HandlerHealth, Health, UnservedType};
pub use plugin::{DelayQueuePlugin, DelayQueuePluginBuilder};
pub use roster::BuiltWorker;
pub use submit::{Receipt, TaskSubmitService};
pub use url::open_store;

#[doc(hidden)]
pub use delayq_core::__private;
