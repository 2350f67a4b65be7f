//! The end of a process that uses a faulty store.

use tokio::sync::watch;

/// The crash of the process of a [`FaultyStore`](super::FaultyStore), which has happened or not.
#[derive(Clone, Debug, Default)]
pub struct Crash {
    happened: watch::Sender<bool>,
    calls: watch::Sender<usize>,
}

impl Crash {
    /// Lets it happen: no call is sent any more, and none is answered.
    pub fn happen(&self) {
        self.happened.send_replace(true);
    }

    /// Whether it has happened.
    #[must_use]
    pub fn has_happened(&self) -> bool {
        *self.happened.borrow()
    }

    /// Completes once it has happened.
    pub async fn happened(&self) {
        let mut happened = self.happened.subscribe();
        // The sender is this crash itself.
        let _ = happened.wait_for(|happened| *happened).await;
    }

    /// Lets it happen and awaits the calls that were under way, which are applied. Not for a plan
    /// that crashes the process itself: the call in which it does so never ends.
    pub async fn happen_between_calls(&self) {
        self.happen();
        let mut calls = self.calls.subscribe();
        // The sender is this crash itself.
        let _ = calls.wait_for(|calls| *calls == 0).await;
    }

    /// A call that begins; `None` when it is not sent any more.
    pub(super) fn begin(&self) -> Option<CallGuard<'_>> {
        // A call is counted before it looks, so that a crash it does not see awaits it.
        self.calls.send_modify(|calls| *calls += 1);
        let call = CallGuard(self);
        (!self.has_happened()).then_some(call)
    }
}

/// A call under way.
pub(super) struct CallGuard<'a>(&'a Crash);

impl Drop for CallGuard<'_> {
    fn drop(&mut self) {
        self.0.calls.send_modify(|calls| *calls -= 1);
    }
}
