//! End of the application's runtime, without which no worker can run.

use std::future::pending;
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio_util::task::AbortOnDropHandle;
use tracing::warn;

use super::shared::Shared;

/// The reason why the handlers have stopped.
const ENDED: &str = "the runtime that the plugin was started on has ended";

/// A task on the application's runtime that never ends: it is dropped when the runtime shuts down,
/// or together with this handle.
pub(super) type Watch = AbortOnDropHandle<()>;

/// Stops the set when dropped, unless the set has already stopped.
struct StopOnDrop(Weak<Shared>);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        let Some(shared) = self.0.upgrade() else {
            return;
        };
        if shared.stop(Duration::ZERO, ENDED) {
            let instance = &shared.instance.id;
            warn!(%instance, "{ENDED}: this instance claims nothing more; \
                start the plugin in the runtime that lives longest");
        }
    }
}

/// Stops the set once the application's runtime has ended. A set that is dropped stops before its
/// watch is dropped.
pub(super) fn watch(shared: &Arc<Shared>) -> Watch {
    let stop = StopOnDrop(Arc::downgrade(shared));
    let alive = async move {
        let _stop = stop;
        pending::<()>().await;
    };
    AbortOnDropHandle::new(shared.app.spawn(alive))
}
