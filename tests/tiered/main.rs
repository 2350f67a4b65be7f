//! The cold tier on real servers: Redis in front of PostgreSQL.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "what a test must not do in silence, it does by panicking; it prints what it measured"
)]

mod contract;
mod history;
mod killed;
mod memory;
mod plugin;
mod recurring;
