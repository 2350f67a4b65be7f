// The page of this crate is the README; links.md gives its links their addresses on docs.rs. The
// doc tests of both are reported under links.md.
#![doc = include_str!("links.md")]
#![doc = include_str!("../README.md")]

// The code that #[task_worker] writes begins with `::delayq_plugin`, in this crate's own tests too.
extern crate self as delayq_plugin;

mod attempt;
mod backoff;
mod batch;
mod bulk;
mod call;
mod clock_skew;
mod config;
mod ending;
mod error;
mod events;
mod handler;
mod handler_set;
mod health;
mod host;
mod metered_store;
mod metric;
mod middleware;
mod outage;
mod plugin;
mod poll_grid;
mod receipt;
mod recurring;
mod report;
mod schedule;
mod settings;
mod skew_log;
mod slots;
mod status;
pub mod store;
mod submit;
mod tally;
mod telemetry;
#[cfg(test)]
mod tests;
#[cfg(feature = "opentelemetry")]
mod trace_context;
mod type_context;
mod unserved;
mod url;
mod watcher;
mod worker_set;
mod workers;

#[cfg(any(test, feature = "test-util"))]
pub use delayq_core::VirtualClock;
pub use delayq_core::operate::{
    AuditReport, Cursor, DeadFilter, Page, Problem, TypeSettings, TypeStats,
};
pub use delayq_core::presence::{InstanceId, InstanceInfo};
pub use delayq_core::registry::{self, MissingComponent, registered_workers};
pub use delayq_core::store::{CancelOutcome, ChangeOutcome, Durability, SubmitOutcome};
pub use delayq_core::{
    AttemptHistory, Backoff, Clock, Component, Components, DelayQueueJob, Delivery, Error, Expiry,
    FleetLimits, FromComponents, IntoDelay, IntoTaskResult, IntoTime, Json, KeptReply, LatePolicy,
    Limits, Lock, Namespace, OnConflict, OnLate, PastError, Rate, Reply, Result, RetryPolicy,
    Store, SystemClock, TaskContext, TaskDetail, TaskError, TaskId, TaskInfo, TaskResult,
    TaskState, TaskType, TaskWorker, Timestamp, TypePattern, Versioned, WaitsFor, When,
    WorkerOptions, WorkerRegistration, days, hours, millis, minutes, seconds,
};

/// For an `impl` of [`TaskWorker`] or [`Middleware`] by hand; `#[task_worker]` adds it by itself.
pub use async_trait::async_trait;
pub use batch::{Batch, BatchEnd, BatchProgress, BatchReceipt, BatchState};
pub use bulk::{BulkChange, BulkError, BulkReport, TaskFilter};
pub use clock_skew::ClockSkew;
pub use config::{ChangedOption, Config, ConfigError, Reloaded};
pub use delayq_macros::task_worker;
pub use error::StartError;
pub use events::{FailureCause, TaskEvent, TaskEventKind, TaskEvents, TaskListener};
pub use handler::DelayBucketHandler;
pub use health::{HandlerHealth, Health, UnservedType};
pub use metric::{METRICS, Metric, MetricKind, SECONDS_BUCKETS};
pub use middleware::{Middleware, Next};
pub use plugin::{DelayQueuePlugin, DelayQueuePluginBuilder};
pub use receipt::Receipt;
pub use recurring::{Recurring, RecurringInfo};
pub use schedule::Schedule;
pub use submit::{ReplyOutcome, TaskReply, TaskSubmitService};
#[cfg(feature = "opentelemetry")]
pub use trace_context::TraceContext;
pub use url::open_store;
pub use worker_set::{AttemptResult, TypeRunner, WorkerSet};
pub use workers::BuiltWorker;

#[doc(hidden)]
pub use delayq_core::__private;
