//! More than one server: fail-overs, cuts and moves of slots, under load and against the promises.

#![cfg_attr(
    not(feature = "soak"),
    allow(dead_code, reason = "long tests run with the feature soak")
)]
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "what a test must not do in silence, it does by panicking; it prints what it measured"
)]

mod application;
mod cluster;
mod confirm;
mod limits;
mod replicas;
mod sentinel;
mod shards;
mod slots;
