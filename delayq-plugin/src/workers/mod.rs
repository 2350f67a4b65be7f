//! Workers of this process, and the task types that they serve.

mod built;
mod configured;
mod options;
mod registry;
mod type_workers;
mod worker;

pub use built::BuiltWorker;
pub(crate) use options::{broken_rule, check_shards, effective, shards_of};
pub(crate) use registry::WorkerRegistry;
pub(crate) use type_workers::TypeWorkers;
pub(crate) use worker::Worker;
