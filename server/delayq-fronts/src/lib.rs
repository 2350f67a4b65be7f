//! Fronts: adapters for clients of other delayed-task systems.
//!
//! Each reads the requests of its clients, calls the operations of a namespace, and answers in the
//! words that its clients rely on. Each is a Cargo feature.

#![allow(
    missing_docs,
    clippy::missing_errors_doc,
    clippy::missing_panics_doc,
    clippy::must_use_candidate,
    clippy::return_self_not_must_use,
    rustdoc::private_intra_doc_links,
    reason = "nothing outside this workspace builds on it"
)]

#[cfg(feature = "beanstalkd")]
pub mod beanstalk;
#[cfg(any(feature = "grape", feature = "task-service"))]
mod body;
#[cfg(any(feature = "grape", feature = "task-service"))]
mod client;
mod front;
mod fronts;
#[doc(hidden)]
#[cfg(feature = "fuzz")]
pub mod fuzz;
#[cfg(feature = "grape")]
pub mod grape;
mod listen_error;
#[cfg(feature = "lmstfy")]
pub mod lmstfy;
#[cfg(feature = "spring")]
pub mod spring;
#[cfg(feature = "task-service")]
pub mod task_service;
#[cfg(test)]
mod tests;

pub use self::front::Front;
pub use self::fronts::{Fronts, Listeners};
pub use self::listen_error::ListenError;
