//! Context of every operation of a store.

use std::sync::Arc;
use std::time::Duration;

use delayq_core::name::Namespace;
use delayq_core::time::Clock;

/// State shared by all operations of a store.
#[derive(Clone, Debug)]
pub(crate) struct Context {
    /// The store's name in logs and errors.
    pub(crate) store: String,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) namespace: Namespace,
    pub(crate) retention: Duration,
    /// Maximum number of remembered ended tasks of a type.
    pub(crate) remembered: usize,
}
