//! The real binary on real stores.

#![allow(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "a key that is not in the answer fails the test, and says where"
)]

#[cfg(unix)]
mod backup;
mod dead;
#[cfg(unix)]
mod guide;
mod history;
mod life;
#[cfg(unix)]
mod live;
mod mistakes;
mod output;
mod profiles;
mod server;
mod stage;
mod transfer;
