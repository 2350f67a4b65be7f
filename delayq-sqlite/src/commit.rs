//! Group commit: the threads of a store, and the way of a call to them and back.

pub(crate) mod call;
pub(crate) mod command;
pub(crate) mod engine;
pub(crate) mod maintenance;
pub(crate) mod queue;
pub(crate) mod reader;
pub(crate) mod writer;

pub(crate) use engine::Engine;
pub(crate) use queue::{Lane, Size};
