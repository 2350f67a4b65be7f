//! A store that counts and times its calls.

use std::sync::Arc;
use std::time::Duration;

use delayq_core::store::{Layer, StoreCall, SubmitOutcome};
use delayq_core::{Clock, Error, NewTask, Result, Store};

use crate::metric::{CallCounts, Metrics};

/// A store whose calls are counted by outcome, and timed. A call that its caller drops before the
/// answer is not counted.
#[derive(Debug)]
pub(crate) struct MeteredStore {
    inner: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    /// The counts of each call, in the order of [`StoreCall::ALL`].
    calls: Vec<CallCounts>,
}

/// Wraps a store so that its calls are counted.
pub(crate) fn metered(
    inner: Arc<dyn Store>,
    metrics: &Metrics,
    clock: &Arc<dyn Clock>,
) -> Arc<dyn Store> {
    let counts = |call: &StoreCall| CallCounts::new(call.name(), metrics.namespace());
    Arc::new(MeteredStore {
        inner,
        clock: Arc::clone(clock),
        calls: StoreCall::ALL.iter().map(counts).collect(),
    })
}

impl MeteredStore {
    /// Counts a call that was sent at `sent_at`.
    fn answered(&self, call: StoreCall, error: Option<&Error>, sent_at: Duration) {
        let took = self.clock.elapsed().saturating_sub(sent_at);
        if let Some(counts) = self.calls.get(call as usize) {
            counts.answered(error, took);
        }
    }
}

impl Layer for MeteredStore {
    fn inner(&self) -> &dyn Store {
        &*self.inner
    }

    async fn around<T: Send>(
        &self,
        call: StoreCall,
        answer: impl Future<Output = Result<T>> + Send,
    ) -> Result<T> {
        let sent_at = self.clock.elapsed();
        let answer = answer.await;
        self.answered(call, answer.as_ref().err(), sent_at);
        answer
    }

    /// Counted as failed if any of its tasks met an error about the store.
    async fn submit(&self, tasks: Vec<NewTask>) -> Vec<Result<SubmitOutcome>> {
        let sent_at = self.clock.elapsed();
        let answers = self.inner.submit(tasks).await;
        let mut errors = answers.iter().filter_map(|answer| answer.as_ref().err());
        let failure = errors.find(|error| is_about_the_store(error));
        self.answered(StoreCall::Submit, failure, sent_at);
        answers
    }
}

/// True unless the error concerns only the one task that was refused.
fn is_about_the_store(error: &Error) -> bool {
    let is_full_type = matches!(error, Error::QueueFull { .. });
    let is_shut = matches!(error, Error::ReadOnly { .. } | Error::Closed(_));
    error.is_transient() && !is_full_type || is_shut
}
