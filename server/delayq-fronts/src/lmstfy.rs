//! The API of lmstfy, and its administration.
//!
//! A pool is a namespace of delayq, a queue a task type, a job a task under its own id. The time to
//! run is the length of a lock; a lock that ends is one of the job's tries.

mod admin;
mod api;
mod call;
mod engine;
mod figures;
#[cfg(feature = "fuzz")]
pub mod fuzz;
mod job;
mod limits;
mod names;
mod pool;
mod state;
mod wire;

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
