//! Whether further jobs of beanstalkd's clients are taken.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Set by SIGUSR1: no further jobs are taken. Cheap to clone; all clones are one.
#[derive(Clone, Debug, Default)]
pub struct Draining(Arc<AtomicBool>);

impl Draining {
    /// Follows the signal from now on, also before the store is open: without this it ends the
    /// process.
    #[cfg(unix)]
    pub fn follow() -> std::io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        let mut told = signal(SignalKind::user_defined1())?;
        let draining = Self::default();
        let following = draining.clone();
        tokio::spawn(async move {
            if told.recv().await.is_some() {
                following.0.store(true, Ordering::Relaxed);
                tracing::info!("no further jobs are taken");
            }
        });
        Ok(draining)
    }

    /// There is no such signal.
    #[cfg(not(unix))]
    pub fn follow() -> std::io::Result<Self> {
        Ok(Self::default())
    }

    pub fn is_on(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
