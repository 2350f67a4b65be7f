//! The crash of a process that uses a faulty store.

use tokio::sync::watch;

/// The crash of the process of a [`FaultyStore`](super::FaultyStore), which may or may not have
/// happened.
#[derive(Clone, Debug, Default)]
pub struct Crash {
    happened: watch::Sender<bool>,
    calls: watch::Sender<usize>,
}

impl Crash {
    /// Crashes the process: from now on no call is sent, and none is answered.
    pub fn happen(&self) {
        self.happened.send_replace(true);
    }

    /// True if the process has crashed.
    #[must_use]
    pub fn has_happened(&self) -> bool {
        *self.happened.borrow()
    }

    /// Completes once the process has crashed.
    pub async fn happened(&self) {
        let mut happened = self.happened.subscribe();
        // The sender is this crash itself.
        let _ = happened.wait_for(|happened| *happened).await;
    }

    /// Crashes the process, then waits until the calls in progress have been applied. Not for a
    /// plan that crashes the process itself: the call in which that happens never ends.
    pub async fn happen_between_calls(&self) {
        self.happen();
        let mut calls = self.calls.subscribe();
        // The sender is this crash itself.
        let _ = calls.wait_for(|calls| *calls == 0).await;
    }

    /// Begins a call; `None` if it is not sent any more.
    pub(super) fn begin(&self) -> Option<CallGuard<'_>> {
        // A call is counted before it checks for a crash, so that a crash which it misses waits for
        // it.
        self.calls.send_modify(|calls| *calls += 1);
        let call = CallGuard(self);
        (!self.has_happened()).then_some(call)
    }
}

/// A call in progress.
pub(super) struct CallGuard<'a>(&'a Crash);

impl Drop for CallGuard<'_> {
    fn drop(&mut self) {
        self.0.calls.send_modify(|calls| *calls -= 1);
    }
}
