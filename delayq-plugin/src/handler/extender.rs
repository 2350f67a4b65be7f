//! Extensions of one handler's locks.

use std::sync::Arc;
use std::time::Duration;

use delayq_core::store::{Bucket, ExtendOutcome};
use delayq_core::{Lock, Result};

use super::attempts::Seq;
use crate::call::OneCall;
use crate::type_context::TypeContext;

/// A call that extended some locks, or failed to.
#[derive(Debug)]
pub(super) struct Extended {
    pub(super) seqs: Vec<Seq>,
    /// `Clock::elapsed` before it was sent.
    pub(super) sent_at: Duration,
    pub(super) outcomes: Result<Vec<ExtendOutcome>>,
}

/// The locks waiting to be extended, and the call that extends them.
#[derive(Debug)]
pub(super) struct Extender {
    context: Arc<TypeContext>,
    bucket: Bucket,
    waiting: Vec<(Seq, Lock)>,
    call: OneCall<Extended>,
}

impl Extender {
    pub(super) fn new(bucket: Bucket, context: Arc<TypeContext>) -> Self {
        Self {
            context,
            bucket,
            waiting: Vec::new(),
            call: OneCall::none(),
        }
    }

    pub(super) fn extend(&mut self, locks: Vec<(Seq, Lock)>) {
        self.waiting.extend(locks);
    }

    /// Starts a call, unless one is in progress.
    pub(super) fn start_due(&mut self, now: Duration) {
        if self.call.is_under_way() || self.waiting.is_empty() {
            return;
        }
        let (seqs, locks) = self.waiting.drain(..).unzip();
        let (context, bucket) = (Arc::clone(&self.context), self.bucket.clone());
        self.call.start(async move {
            let lock_for = context.options().lock;
            let outcomes = context.store.extend(&bucket, locks, lock_for).await;
            Extended {
                seqs,
                sent_at: now,
                outcomes,
            }
        });
    }

    pub(super) async fn answer(&mut self) -> Extended {
        self.call.answer().await
    }
}
