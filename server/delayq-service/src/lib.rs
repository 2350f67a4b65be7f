//! The common base of all entries of delayq-server.
//!
//! It checks access ([`access`]) and limits ([`limits`]), finds the store of a namespace
//! ([`place`], [`space`]), and hands out tasks ([`pull`]) or pushes them ([`push`]). An entry reads
//! a request, has it admitted ([`context`]), calls an [`operation`], and writes the answer. A
//! declared state is brought about by the same operations ([`apply`]).

#![allow(
    missing_docs,
    clippy::missing_errors_doc,
    clippy::missing_panics_doc,
    clippy::must_use_candidate,
    clippy::return_self_not_must_use,
    rustdoc::private_intra_doc_links,
    reason = "nothing outside this workspace builds on it"
)]

pub mod access;
pub mod app;
pub mod apply;
pub mod body;
pub mod brake;
pub mod config;
pub mod context;
pub mod discovery;
pub mod draining;
pub mod folder_cache;
#[doc(hidden)]
#[cfg(feature = "fuzz")]
pub mod fuzz;
pub mod grpc_server;
pub mod health;
#[cfg(feature = "kafka")]
mod history_topic;
pub mod json;
#[cfg(feature = "kafka")]
mod kafka_cluster;
pub mod limits;
pub mod listener;
pub mod meter;
mod network;
pub mod operation;
mod pattern_name;
pub mod place;
pub mod policy;
pub mod private_file;
pub mod problem;
pub mod proxies;
pub mod pull;
pub mod push;
mod recorded_store;
pub mod recurring;
pub mod requests;
pub mod same_site;
pub mod server_metric;
pub mod space;
pub mod span;
pub mod stop;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
