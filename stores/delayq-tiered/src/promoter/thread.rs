//! The thread of the promoters: a store may be opened from a runtime that ends before it.

use std::future::Future;

use delayq_core::{Error, Result};
use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;

/// The thread. It ends when this is dropped.
#[derive(Debug)]
pub(crate) struct PromoterThread {
    handle: Handle,
    _end: oneshot::Sender<()>,
}

impl PromoterThread {
    pub(crate) fn start(store: &str) -> Result<Self> {
        let failed = |error: std::io::Error| {
            Error::unavailable(store, format!("its thread cannot be started: {error}"))
        };
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(failed)?;
        let (end, ended) = oneshot::channel::<()>();
        let handle = runtime.handle().clone();
        let thread = std::thread::Builder::new().name("delayq-tiered".to_owned());
        let run = move || {
            runtime.block_on(async { ended.await.ok() });
            runtime.shutdown_background();
        };
        thread.spawn(run).map_err(failed)?;
        Ok(Self { handle, _end: end })
    }

    /// Runs a future on the thread.
    pub(crate) fn spawn(&self, future: impl Future<Output = ()> + Send + 'static) {
        self.handle.spawn(future);
    }
}
