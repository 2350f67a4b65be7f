//! The lmstfy API and its admin API.
//!
//! A pool is a namespace of delayq, a queue is a task type, and a job is a task with the same id.
//! The time to run is the lock time; an expired lock uses up one of the job's tries.

mod admin;
mod api;
mod call;
mod consumer;
mod engine;
mod figures;
#[cfg(feature = "fuzz")]
pub mod fuzz;
mod job;
mod limits;
mod names;
mod state;
mod wire;

use std::sync::Arc;

pub use self::state::Lmstfy;

/// The routes of the API.
pub fn router(front: &Arc<Lmstfy>) -> axum::Router {
    api::router(Arc::clone(front))
}

/// The routes of the admin API.
pub fn admin(front: &Arc<Lmstfy>) -> axum::Router {
    admin::router(Arc::clone(front))
}

#[cfg(test)]
mod tests;
