//! The end of a process that uses a faulty store.

use tokio::sync::watch;

/// The crash of the process of a [`FaultyStore`](super::FaultyStore), which has happened or not.
#[derive(Clone, Debug, Default)]
pub struct Crash {
    happened: watch::Sender<bool>,
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
}
