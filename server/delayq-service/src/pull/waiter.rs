//! A request that waits for tasks, and its answer.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use delayq_plugin::{Error, Result, TaskType};
use tokio::sync::oneshot;

use crate::stop::Stopping;

use super::handover::Handover;

/// A client's demand for tasks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Demand {
    /// The types to claim from, in order of preference.
    pub types: Vec<TaskType>,
    /// The largest number of tasks.
    pub limit: usize,
    /// The lock time.
    pub lock_for: Duration,
    /// The number of lock expiries after which a task is dead; `None` means the default.
    pub max_lock_expiries: Option<u32>,
}

/// The lock options of a demand. Only demands with equal terms share a claim.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct LockTerms {
    pub(super) lock_for: Duration,
    pub(super) max_lock_expiries: Option<u32>,
}

impl Demand {
    /// The lock options.
    pub(super) fn terms(&self) -> LockTerms {
        LockTerms {
            lock_for: self.lock_for,
            max_lock_expiries: self.max_lock_expiries,
        }
    }
}

/// A waiting request, on the claimer's side.
#[derive(Debug)]
pub(super) struct Waiter {
    pub(super) demand: Demand,
    /// True if the request takes what is due now and does not wait.
    pub(super) is_hasty: bool,
    claim: Arc<ClaimOfWaiter>,
    sender: oneshot::Sender<Result<Handover>>,
}

/// The state of a waiter's claim, shared by both sides.
#[derive(Debug, Default)]
struct ClaimOfWaiter {
    is_under_way: AtomicBool,
    /// Set when the wait is over; the result of the claim under way is then the answer.
    is_last: AtomicBool,
}

/// A waiting request, on the request's side.
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

    /// Returns true if a claim is under way for it.
    pub(super) fn is_reserved(&self) -> bool {
        self.claim.is_under_way.load(Ordering::SeqCst)
    }

    /// Marks that a claim is under way for it.
    pub(super) fn reserve(&self) {
        self.claim.is_under_way.store(true, Ordering::SeqCst);
    }

    /// Marks that its claim took nothing. Returns true if its wait is over.
    pub(super) fn free(&self) -> bool {
        self.claim.is_under_way.store(false, Ordering::SeqCst);
        self.claim.is_last.load(Ordering::SeqCst)
    }

    /// Returns true if the request no longer waits for an answer.
    pub(super) fn is_gone(&self) -> bool {
        self.sender.is_closed()
    }

    /// Sends the answer. If the request is gone, the dropped handover releases the tasks.
    pub(super) fn answer(self, answer: Result<Handover>) {
        self.sender.send(answer).ok();
    }
}

impl PendingClaim {
    /// The answer, or no tasks after `wait` or when the server stops. Without a wait, returns as
    /// soon as no more tasks are due. An answer that arrives at the last moment is still used.
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

/// Completes after the wait. If a claim is under way then, never completes, because the claim's
/// result is the answer.
async fn last_claim(claim: &ClaimOfWaiter, wait: Duration) {
    tokio::time::sleep(wait).await;
    claim.is_last.store(true, Ordering::SeqCst);
    if claim.is_under_way.load(Ordering::SeqCst) {
        std::future::pending::<()>().await;
    }
}
