//! The shipper of a plugin, while it runs.

use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio_util::task::AbortOnDropHandle;

use super::health::HistoryHealth;
use super::shipper::Shipper;

/// How long the end of a process waits for its last records. They stay in the store otherwise.
const FLUSH_WITHIN: Duration = Duration::from_millis(500);

/// A shipper that runs until this is dropped.
#[derive(Debug)]
pub(crate) struct Shipping {
    shipper: Arc<Shipper>,
    _task: AbortOnDropHandle<()>,
}

impl Shipping {
    pub(crate) fn start(shipper: Shipper, app: &Handle) -> Self {
        let shipper = Arc::new(shipper);
        let task = app.spawn(Arc::clone(&shipper).run());
        Self {
            shipper,
            _task: AbortOnDropHandle::new(task),
        }
    }

    pub(crate) fn health(&self) -> HistoryHealth {
        self.shipper.health()
    }

    /// Ships the last records.
    pub(crate) async fn flush(&self) {
        self.shipper.flush(FLUSH_WITHIN).await;
    }
}
