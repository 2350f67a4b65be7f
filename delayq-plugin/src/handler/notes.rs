//! Errors of at-most-once attempts, to be added to the ends that the store remembers.

use std::collections::VecDeque;
use std::sync::Arc;

use delayq_core::Lock;
use delayq_core::log_limit::LogLimit;
use delayq_core::store::{AttemptEnd, Bucket, Settlement};

use crate::call::OneCall;
use crate::type_context::TypeContext;

/// Maximum number of errors waiting for the store. Further ones are only reported, as all are.
const MAX_WAITING: usize = 1_024;

/// Limit on log lines about errors that could not be recorded.
static LOST: LogLimit = LogLimit::new();

/// The waiting errors, sent one call after the other. Each is tried only once; a lost one is in the
/// log.
#[derive(Debug)]
pub(super) struct Notes {
    context: Arc<TypeContext>,
    bucket: Bucket,
    waiting: VecDeque<(Lock, String)>,
    call: OneCall<()>,
}

impl Notes {
    pub(super) fn new(bucket: Bucket, context: Arc<TypeContext>) -> Self {
        Self {
            context,
            bucket,
            waiting: VecDeque::new(),
            call: OneCall::none(),
        }
    }

    /// Queues the failure of a task that was settled before it started.
    pub(super) fn push(&mut self, failure: Settlement) {
        if let AttemptEnd::Dead { error, .. } = failure.end
            && self.waiting.len() < MAX_WAITING
        {
            self.waiting.push_back((failure.lock, error));
            self.start_next();
        }
    }

    pub(super) fn is_under_way(&self) -> bool {
        self.call.is_under_way()
    }

    /// Completes when the last waiting error was sent; never if none was waiting.
    pub(super) async fn answer(&mut self) {
        loop {
            self.call.answer().await;
            self.start_next();
            if !self.is_under_way() {
                return;
            }
        }
    }

    fn start_next(&mut self) {
        if self.is_under_way() {
            return;
        }
        let Some((lock, error)) = self.waiting.pop_front() else {
            return;
        };
        let (context, bucket) = (Arc::clone(&self.context), self.bucket.clone());
        self.call.start(async move {
            let noted = context.store.note_failure(&bucket, &lock, &error).await;
            if let Err(error) = noted
                && let Some(left_out) = LOST.admit()
            {
                tracing::warn!(%bucket, id = %lock.id, %error, left_out,
                    "cannot record the error of an at-most-once task with its end");
            }
        });
    }
}
