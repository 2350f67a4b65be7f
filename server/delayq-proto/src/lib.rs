//! The protocol of delayq-server over gRPC: package `delayq.v1`.
//!
//! [`pb`] contains the messages and the stubs of client and service. They are generated from the
//! `.proto` files of this crate, whose comments document them. The other modules convert between
//! messages and the types of `delayq-core`: `From` into a message, `TryFrom` out of one. A missing
//! or invalid field is an [`Error::InvalidInput`] that names the field.
//!
//! [`Error::InvalidInput`]: delayq_core::Error::InvalidInput

mod chronicle;
mod claim;
mod documents;
mod error;
mod field;
mod fleet;
mod history;
mod instance;
mod interned;
mod outcome;
#[allow(
    missing_docs,
    clippy::all,
    clippy::pedantic,
    clippy::allow_attributes_without_reason,
    unreachable_pub,
    reason = "generated; the documentation is that of the .proto files"
)]
pub mod pb;
mod settings;
mod settle;
mod status;
mod submit;
mod task;
mod time;

pub use field::{namespace, required, required_type};
pub use history::read_life_outcome;
pub use outcome::{read_state, state};
pub use settle::read_settled;
pub use status::{error_of, status_of};
pub use time::{read_span, read_span_or_zero, read_time, read_time_if, span, time};

/// The compiled `.proto` files with their comments, for server reflection.
pub const DESCRIPTORS: &[u8] = include_bytes!("../generated/descriptors.bin");

/// The compiled `.proto` files of the public task service.
pub const TASKS_DESCRIPTORS: &[u8] = include_bytes!("../generated/tasks.bin");
