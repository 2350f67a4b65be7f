//! Draining: whether new jobs of beanstalkd clients are accepted.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Set by SIGUSR1; new jobs are then refused. Cheap to clone; all clones share the state.
#[derive(Clone, Debug, Default)]
pub struct Draining(Arc<AtomicBool>);

impl Draining {
    /// Handles the signal from now on, even before the store is open. Without a handler, the signal
    /// ends the process.
    #[cfg(unix)]
    pub fn follow() -> std::io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        let mut told = signal(SignalKind::user_defined1())?;
        let draining = Self::default();
        let following = draining.clone();
        tokio::spawn(async move {
            if told.recv().await.is_some() {
                following.0.store(true, Ordering::Relaxed);
                tracing::info!("draining: new beanstalkd jobs are refused");
            }
        });
        Ok(draining)
    }

    /// This system has no such signal.
    #[cfg(not(unix))]
    pub fn follow() -> std::io::Result<Self> {
        Ok(Self::default())
    }

    pub fn is_on(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
