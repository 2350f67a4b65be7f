//! A call to the store, possibly in progress.

use std::fmt;
use std::future::{Future, pending};
use std::pin::Pin;

/// Holds at most one call. The call keeps its progress while nobody awaits it.
pub(crate) struct OneCall<T>(Option<Pin<Box<dyn Future<Output = T> + Send>>>);

impl<T> OneCall<T> {
    pub(crate) fn none() -> Self {
        Self(None)
    }

    pub(crate) fn start(&mut self, call: impl Future<Output = T> + Send + 'static) {
        self.0 = Some(Box::pin(call));
    }

    pub(crate) fn is_under_way(&self) -> bool {
        self.0.is_some()
    }

    /// Drops the call in progress. Only for calls without side effects.
    pub(crate) fn cancel(&mut self) {
        self.0 = None;
    }

    /// The answer of the call in progress. Never completes if there is none.
    pub(crate) async fn answer(&mut self) -> T {
        let Some(call) = &mut self.0 else {
            return pending().await;
        };
        let answer = call.await;
        self.0 = None;
        answer
    }
}

impl<T> fmt::Debug for OneCall<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_under_way() {
            "under way"
        } else {
            "none"
        })
    }
}
