//! The store of delayq that uses a delayq-server over gRPC: the server keeps the tasks.
//!
//! Applications do not depend on this crate. They depend on `delayq-plugin` with the feature
//! `remote` and open `delayq://TOKEN@HOST:PORT/NAMESPACE`.
//!
//! # Guarantees
//!
//! The guarantees of the server's store, as each call of [`Store`](delayq_core::Store) is one call
//! to the server. The error is `Unavailable` only if the call certainly did not reach the server's
//! store. A call whose answer was lost is `Indeterminate`, and so is one that took longer than the
//! call timeout.
//!
//! A submit, a cancel, a change of one task and a lookup are repeated within the call timeout while
//! the server is away, that is while there is no connection to it or it is being shut down. The
//! loops of workers repeat their own calls.
//!
//! A claim whose answer was lost may have locked tasks: they start again once their locks have
//! expired, and each has used up an attempt. A claim in progress when its client goes away gives
//! its tasks back at once.
//!
//! The server decides how long ended tasks are remembered: `retention` and `remembered` in the
//! options have no effect.

mod address;
mod chronicle;
mod documents;
mod ends;
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
