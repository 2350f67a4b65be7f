//! Listeners of the application, until the plugin starts.

use std::sync::Arc;

use crate::events::TaskListener;

/// The application's listeners.
#[derive(Default)]
pub(super) struct Listeners(pub(super) Vec<Arc<dyn TaskListener>>);

impl std::fmt::Debug for Listeners {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Listeners({})", self.0.len())
    }
}
