//! Maps over the workers, until the plugin starts.

use crate::workers::BuiltWorker;

/// What is done to each worker before it runs.
#[derive(Default)]
pub(super) struct Maps(pub(super) Vec<Box<dyn Fn(BuiltWorker) -> BuiltWorker + Send + Sync>>);

impl std::fmt::Debug for Maps {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Maps({})", self.0.len())
    }
}
