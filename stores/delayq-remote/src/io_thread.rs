//! The thread of a store's connections. Connections depend on the runtime that created them, while
//! callers come from any runtime, also from one that ends.

use std::future::Future;
use std::io;

use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// The thread. It ends when this is dropped.
#[derive(Debug)]
pub(crate) struct IoThread {
    handle: Handle,
    _end: oneshot::Sender<()>,
}

impl IoThread {
    pub(crate) fn start() -> io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let (end, ended) = oneshot::channel::<()>();
        let handle = runtime.handle().clone();
        let thread = std::thread::Builder::new().name("delayq-remote".to_owned());
        thread.spawn(move || {
            runtime.block_on(async { ended.await.ok() });
            runtime.shutdown_background();
        })?;
        Ok(Self { handle, _end: end })
    }

    /// Runs a future on the thread.
    pub(crate) fn spawn<T: Send + 'static>(
        &self,
        future: impl Future<Output = T> + Send + 'static,
    ) -> JoinHandle<T> {
        self.handle.spawn(future)
    }
}
