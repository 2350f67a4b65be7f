//! A request that waits for tasks, and its answer.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use delayq_plugin::{Error, Result, TaskType};
use tokio::sync::oneshot;

use crate::stop::Stopping;

use super::handover::Handover;

/// What a client wants to claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Demand {
    /// From these types, the first ones first.
    pub types: Vec<TaskType>,
    /// At most so many tasks.
    pub limit: usize,
    /// How long their locks last.
    pub lock_for: Duration,
    /// A task whose lock has expired this often is dead instead; `None`: as usual.
    pub max_lock_expiries: Option<u32>,
}

/// Which locks a demand is for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct LockTerms {
    pub(super) lock_for: Duration,
    pub(super) max_lock_expiries: Option<u32>,
}

impl Demand {
    /// Which locks it is for.
    pub(super) fn terms(&self) -> LockTerms {
        LockTerms {
            lock_for: self.lock_for,
            max_lock_expiries: self.max_lock_expiries,
        }
    }
}

/// A waiting request, as the claimer has it.
#[derive(Debug)]
pub(super) struct Waiter {
    pub(super) demand: Demand,
    /// It takes what is due now, or nothing.
    pub(super) is_hasty: bool,
    claim: Arc<ClaimOfWaiter>,
    sender: oneshot::Sender<Result<Handover>>,
}

/// What both sides know of the claim for a waiter.
#[derive(Debug, Default)]
struct ClaimOfWaiter {
    is_under_way: AtomicBool,
    /// The wait is over: the end of the claim under way is all that is waited for.
    is_last: AtomicBool,
}

/// The request's side.
#[derive(Debug)]
pub(super) struct PendingClaim {
    claim: Arc<ClaimOfWaiter>,
    receiver: oneshot::Receiver<Result<Handover>>,
}

impl Waiter {
    pub(super) fn new(demand: Demand, wait: Duration) -> (Self, PendingClaim) {
        let (sender, receiver) = oneshot::channel();
        let waiter = Self {
            demand,
            is_hasty: wait.is_zero(),
            claim: Arc::default(),
            sender,
        };
        let claim = Arc::clone(&waiter.claim);
        (waiter, PendingClaim { claim, receiver })
    }

    /// Whether a claim is under way for it.
    pub(super) fn is_reserved(&self) -> bool {
        self.claim.is_under_way.load(Ordering::SeqCst)
    }

    /// A claim begins for it.
    pub(super) fn reserve(&self) {
        self.claim.is_under_way.store(true, Ordering::SeqCst);
    }

    /// The claim for it took nothing; whether its wait is over.
    pub(super) fn free(&self) -> bool {
        self.claim.is_under_way.store(false, Ordering::SeqCst);
        self.claim.is_last.load(Ordering::SeqCst)
    }

    /// Whether nobody waits for the answer any more.
    pub(super) fn is_gone(&self) -> bool {
        self.sender.is_closed()
    }

    /// Answers. If nobody waits any more, the dropped handover gives its tasks back.
    pub(super) fn answer(self, answer: Result<Handover>) {
        self.sender.send(answer).ok();
    }
}

impl PendingClaim {
    /// The answer, or nothing after `wait` or when the server stops; without a wait, as soon as
    /// nothing more is due. What arrives at the very end is handed over too.
    pub(super) async fn within(mut self, wait: Duration, stopping: &Stopping) -> Result<Handover> {
        let closed = || Err(Error::Closed("the server"));
        if wait.is_zero() {
            return self.receiver.await.unwrap_or_else(|_| closed());
        }
        tokio::select! {
            answer = &mut self.receiver => return answer.unwrap_or_else(|_| closed()),
            () = last_claim(&self.claim, wait) => {}
            () = stopping.ended() => {}
        }
        self.receiver.close();
        self.receiver
            .try_recv()
            .unwrap_or_else(|_| Ok(Handover::nothing()))
    }
}

/// Completes after the wait, unless a claim is under way then, whose end is an answer.
async fn last_claim(claim: &ClaimOfWaiter, wait: Duration) {
    tokio::time::sleep(wait).await;
    claim.is_last.store(true, Ordering::SeqCst);
    if claim.is_under_way.load(Ordering::SeqCst) {
        std::future::pending::<()>().await;
    }
}
