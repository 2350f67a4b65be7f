//! The API of lmstfy, and its administration.
//!
//! A pool is a namespace of delayq, a queue a task type, a job a task under its own id. The time to
//! run is the length of a lock; a lock that ends is one of the job's tries.

mod admin;
mod answer;
mod api;
mod appetite;
mod book;
mod call;
mod dead_letters;
mod engine;
mod figures;
#[cfg(feature = "fuzz")]
pub mod fuzz;
mod histogram;
mod job;
mod job_id;
mod limit;
mod limit_call;
mod new_job;
mod operation;
mod overview;
mod params;
mod pool;
mod queue_name;
mod state;
mod taken;
mod throttle;
mod token_call;
mod token_key;

use std::sync::Arc;

pub use self::state::Lmstfy;

/// The routes of the API.
pub fn router(front: &Arc<Lmstfy>) -> axum::Router {
    api::router(Arc::clone(front))
}

/// The routes of its administration.
pub fn admin(front: &Arc<Lmstfy>) -> axum::Router {
    admin::router(Arc::clone(front))
}

#[cfg(test)]
mod tests;
