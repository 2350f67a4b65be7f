//! A scheduler thread, which runs handlers.

use std::future::Future;

use tokio::runtime::{Builder, Handle};
use tokio::task::JoinHandle;
use tokio_util::task::TaskTracker;

use crate::error::StartError;

/// Longest thread name that Linux keeps, in bytes.
const MAX_THREAD_NAME: usize = 15;

/// A thread with a small runtime of its own. Once this is dropped, the thread ends as soon as
/// everything spawned on it has ended.
///
/// Handlers do not run on the application's runtime, so that locks are extended even if something
/// blocks or starves that runtime. A plain thread could not borrow it either: `block_on` from
/// outside drives no I/O under a current-thread runtime.
#[derive(Debug)]
pub(crate) struct SchedulerThread {
    handle: Handle,
    spawned: TaskTracker,
}

impl SchedulerThread {
    pub(crate) fn start(name: &str) -> Result<Self, StartError> {
        let failed = |source| StartError::Thread {
            name: name.to_owned(),
            source,
        };
        let runtime = Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(failed)?;
        let handle = runtime.handle().clone();
        let spawned = TaskTracker::new();
        let tracker = spawned.clone();
        let shown = name
            .get(..name.floor_char_boundary(MAX_THREAD_NAME))
            .unwrap_or(name);
        // Never joined: this may be dropped on a runtime's thread, which must not block.
        std::thread::Builder::new()
            .name(shown.to_owned())
            .spawn(move || runtime.block_on(tracker.wait()))
            .map_err(failed)?;
        Ok(Self { handle, spawned })
    }

    /// Uses a runtime that is already running, and keeps running when this is dropped, instead of a
    /// thread.
    pub(crate) fn on(handle: Handle) -> Self {
        let spawned = TaskTracker::new();
        Self { handle, spawned }
    }

    pub(crate) fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) -> JoinHandle<()> {
        self.spawned.spawn_on(work, &self.handle)
    }
}

impl Drop for SchedulerThread {
    fn drop(&mut self) {
        self.spawned.close();
    }
}
