//! Code of the application that a builder collects.

use std::fmt;
use std::sync::Arc;

use crate::events::TaskListener;
use crate::workers::BuiltWorker;

/// The application's listeners.
#[derive(Default)]
pub(super) struct Listeners(pub(super) Vec<Arc<dyn TaskListener>>);

impl fmt::Debug for Listeners {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Listeners({})", self.0.len())
    }
}

/// What is done to each worker before it runs.
#[derive(Default)]
pub(super) struct Maps(pub(super) Vec<Box<dyn Fn(BuiltWorker) -> BuiltWorker + Send + Sync>>);

impl fmt::Debug for Maps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Maps({})", self.0.len())
    }
}
