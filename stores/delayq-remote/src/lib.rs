//! The store of delayq that is a delayq-server: tasks are kept by the server, over gRPC.
//!
//! Applications do not depend on this crate. They depend on `delayq-plugin` with the feature
//! `remote` and open `delayq://TOKEN@HOST:PORT/NAMESPACE`.
//!
//! # What it promises
//!
//! The promises of the server's store, as each call of [`Store`](delayq_core::Store) is one call of
//! the server. `Unavailable` is said only where the call certainly did not reach the server's
//! store. A call whose answer was lost is `Indeterminate`, and so is one that took longer than the
//! call timeout.
//!
//! A claim whose answer was lost on the way may have locked tasks: they start again once their
//! locks have expired, and this costs each an attempt. A claim that is under way when its client
//! goes away gives its tasks back at once.
//!
//! How long ended tasks are remembered is the server's to say: `retention` and `remembered` of the
//! options have no effect.

mod address;
mod chronicle;
mod documents;
mod failure;
#[doc(hidden)]
#[cfg(feature = "fuzz")]
pub mod fuzz;
mod io_thread;
mod operate;
mod presence;
mod remote;
mod replies;
mod store;

pub use remote::RemoteStore;
