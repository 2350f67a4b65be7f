//! Moves that are broken off, and stores that are away: each task runs once, and not early.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "tests: a panic is a failure"
)]

mod by_id;
mod doubt;
mod killed;
mod outages;
mod stage;
mod taken;
