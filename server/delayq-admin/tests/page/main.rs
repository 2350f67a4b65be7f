//! The page, asked as a browser asks it, on a memory store.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by a panic, also in its helpers"
)]

mod actions;
mod failing;
mod forms;
mod hostile;
mod lists;
mod live;
mod mounting;
mod pages;
mod roles;
mod selected;
mod shop;
