//! Store that counts and times its calls.

use std::future::Future;
use std::sync::Arc;

use delayq_core::{Clock, Error, Result, Store};

mod chronicle;
mod documents;
mod operate;
mod presence;
mod replies;
mod store;

use crate::metric::{CallCounts, Metrics};

/// Makes the table of calls; their names are those of the methods.
macro_rules! calls {
    ($($name:ident),+ $(,)?) => {
        /// The counts of each kind of call.
        #[derive(Debug)]
        struct Calls {
            $($name: CallCounts,)+
        }

        impl Calls {
            fn new(metrics: &Metrics) -> Self {
                Self {
                    $($name: CallCounts::new(stringify!($name), metrics.namespace()),)+
                }
            }
        }
    };
}

calls! {
    submit, buckets, claim, settle, extend, note_failure, cancel, reschedule, update, find, check,
    types, register_type, configure_type, stats, list, due_histogram, requeue_dead, discard_dead,
    pause, resume, purge, drop_type, audit, announce, withdraw, instances, add_figures,
    figures, log_action, actions, folder, folder_revision, write_document, remove_document,
    keep_reply, reply,
}

/// A store whose calls are counted by outcome, and timed. A call that its caller drops before the
/// answer is not counted.
#[derive(Debug)]
pub(crate) struct MeteredStore {
    inner: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    calls: Calls,
}

/// The same store, counted.
pub(crate) fn metered(
    inner: Arc<dyn Store>,
    metrics: &Metrics,
    clock: &Arc<dyn Clock>,
) -> Arc<dyn Store> {
    Arc::new(MeteredStore {
        inner,
        clock: Arc::clone(clock),
        calls: Calls::new(metrics),
    })
}

impl MeteredStore {
    /// Counts a call.
    async fn call<T>(
        &self,
        counts: &CallCounts,
        call: impl Future<Output = Result<T>> + Send,
    ) -> Result<T> {
        let sent_at = self.clock.elapsed();
        let answer = call.await;
        let took = self.clock.elapsed().saturating_sub(sent_at);
        counts.answered(answer.as_ref().err(), took);
        answer
    }

    /// Counts a submit: as failed when a task in it met an error that is about the store.
    async fn submission<T>(
        &self,
        call: impl Future<Output = Vec<Result<T>>> + Send,
    ) -> Vec<Result<T>> {
        let sent_at = self.clock.elapsed();
        let answers = call.await;
        let took = self.clock.elapsed().saturating_sub(sent_at);
        let errors = answers.iter().filter_map(|answer| answer.as_ref().err());
        let failure = errors.into_iter().find(|error| is_about_the_store(error));
        self.calls.submit.answered(failure, took);
        answers
    }
}

/// Not about the one task that was refused.
fn is_about_the_store(error: &Error) -> bool {
    let is_full_type = matches!(error, Error::QueueFull { .. });
    let is_shut = matches!(error, Error::ReadOnly { .. } | Error::Closed(_));
    error.is_transient() && !is_full_type || is_shut
}
