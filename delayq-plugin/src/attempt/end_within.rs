//! The end of an attempt in a transaction of its worker.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use delayq_core::worker::EndWithin;
use delayq_core::{DelayQueueJob, Error, Lock, Result, TaskContext};
use delayq_transaction::DynTransaction;
use tracing::{debug, warn};

use super::follow_ups::FollowUps;
use crate::submit::TaskSubmitService;
use crate::within::Within;

/// True once the worker of an attempt has asked a transaction to end it. Whether it has ended is
/// then known to the store alone.
#[derive(Clone, Debug, Default)]
pub(crate) struct WithinFlag(Arc<AtomicBool>);

impl WithinFlag {
    pub(crate) fn is_set(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }

    pub(super) fn set(&self) {
        self.0.store(true, Ordering::Release);
    }
}

/// Ends the attempt of one worker in its transaction.
#[derive(Debug)]
pub(super) struct AttemptEndWithin {
    pub(super) tasks: Arc<TaskSubmitService>,
    pub(super) worker: Arc<str>,
    pub(super) flag: WithinFlag,
    pub(super) is_at_most_once: bool,
    /// No other worker of the task is open.
    pub(super) is_only_worker: bool,
    /// The follow-ups of the last transaction.
    pub(super) sent: Mutex<Vec<DelayQueueJob>>,
}

impl AttemptEndWithin {
    fn check(&self) -> Result<()> {
        let invalid = |reason: &str| Err(Error::invalid("settle_within", reason));
        if self.is_at_most_once {
            return invalid("an at-most-once task is done before it starts");
        }
        if !self.is_only_worker {
            return invalid(
                "the task has other workers that have not succeeded yet, and is done with the last \
                 of them: give it one worker",
            );
        }
        Ok(())
    }

    /// Stores the reply given so far, over the store's own connection. If the transaction is not
    /// committed, nobody takes it for the reply of the task, because its fence does not settle it.
    async fn keep_reply(&self, cx: &TaskContext) -> Result<()> {
        let Some(reply) = cx.take_reply() else {
            return Ok(());
        };
        let lock = Lock {
            id: cx.id().clone(),
            fence: cx.fence(),
        };
        let store = self.tasks.store();
        match store.keep_reply(cx.task_type(), &lock, &reply).await {
            Err(error @ Error::Unsupported(_)) => {
                warn!(%error, "a reply is dropped: this store keeps none");
                Ok(())
            }
            kept => kept.map(|is_kept| debug!(is_kept, bytes = reply.body.len(), "reply")),
        }
    }

    /// The follow-ups of this transaction: those recorded since the last one or, in a further try,
    /// the same again.
    fn follow_ups(&self, cx: &TaskContext) -> Vec<DelayQueueJob> {
        let follow_ups = FollowUps {
            cx,
            worker: &self.worker,
            tasks: &self.tasks,
        };
        let recorded = follow_ups.named(cx.take_follow_ups());
        let mut sent = self.sent.lock().unwrap_or_else(PoisonError::into_inner);
        if !recorded.is_empty() {
            *sent = recorded;
        }
        sent.clone()
    }
}

#[async_trait]
impl EndWithin for AttemptEndWithin {
    async fn settle(&self, cx: &TaskContext, tx: &mut dyn DynTransaction) -> Result<()> {
        self.check()?;
        Within::new(&**self.tasks.store(), &mut *tx)?;
        self.keep_reply(cx).await?;
        let jobs = self.follow_ups(cx);
        // Before the calls: a client without a transaction commits what it does not hear of.
        self.flag.set();
        for sent in self.tasks.send_all_within(jobs, &mut *tx).await {
            sent?;
        }
        let mut within = Within::new(&**self.tasks.store(), tx)?;
        within.settle(cx).await?;
        debug!("done, once its transaction is committed");
        Ok(())
    }
}
