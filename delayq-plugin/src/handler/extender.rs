//! Extensions of one handler's locks.

use std::sync::Arc;
use std::time::Duration;

use delayq_core::store::{Bucket, ExtendOutcome};
use delayq_core::{Lock, Result};

use super::attempts::{Seq, ToExtend};
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
    waiting: Vec<ToExtend>,
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

    pub(super) fn extend(&mut self, locks: Vec<ToExtend>) {
        self.waiting.extend(locks);
    }

    /// Starts a call, unless one is in progress.
    pub(super) fn start_due(&mut self, now: Duration) {
        if self.call.is_under_way() || self.waiting.is_empty() {
            return;
        }
        let (alone, beside): (Vec<_>, Vec<_>) =
            self.waiting.drain(..).partition(|one| one.is_alone);
        let seqs = alone.iter().chain(&beside).map(|one| one.seq).collect();
        let (context, bucket) = (Arc::clone(&self.context), self.bucket.clone());
        self.call.start(async move {
            let lock_for = context.options().lock;
            let outcomes = async {
                let mut outcomes = Vec::with_capacity(alone.len() + beside.len());
                for one in alone {
                    let extended = context.store.extend_alone(&bucket, &one.lock, lock_for);
                    outcomes.push(extended.await?);
                }
                if !beside.is_empty() {
                    let locks: Vec<Lock> = beside.into_iter().map(|one| one.lock).collect();
                    outcomes.extend(context.store.extend(&bucket, locks, lock_for).await?);
                }
                Ok(outcomes)
            };
            Extended {
                seqs,
                sent_at: now,
                outcomes: outcomes.await,
            }
        });
    }

    pub(super) async fn answer(&mut self) -> Extended {
        self.call.answer().await
    }
}
