//! Tasks that are born, changed and done in transactions of the application's own client.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test that cannot go on fails where it stands"
)]

mod born;
mod held;
mod refused;
mod settled;
mod shop;
mod watched;
