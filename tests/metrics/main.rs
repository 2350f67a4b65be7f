//! Metrics: what a plugin counts, the table of the guide, the dashboard and the alerts.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "what a test must not do in silence, it does by panicking"
)]

mod counts;
mod exposition;
mod monitoring;
mod table;
