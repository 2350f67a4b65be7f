//! One test a cause, on the memory store under virtual time; the gist of them on SQLite.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by a panic, also in its helpers"
)]

mod bench;
mod runs;
mod waits;
