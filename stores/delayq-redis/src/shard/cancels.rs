//! Cancels in one shard made at the same time share calls, without waiting for one another.
//!
//! A cancel is sent at once if fewer than [`MAX_CALLS`] calls are in progress. Other cancels
//! collect and are sent together once a call is answered.

use std::collections::{HashSet, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use delayq_core::store::{CancelOutcome, MAX_BATCH};
use delayq_core::{Error, Result, TaskId};
use tokio::sync::oneshot;

use crate::lock::lock;
use crate::scripts::change::Lookup;

/// Number of calls in progress for one shard: one is on its way while the server runs another.
const MAX_CALLS: usize = 2;

type Answer = Result<Lookup<CancelOutcome>>;

/// A waiting caller of a cancel.
#[derive(Debug)]
struct CancelCaller {
    deadline: Instant,
    reply: oneshot::Sender<Answer>,
}

impl CancelCaller {
    /// Sends the answer; the caller may have gone away.
    fn answer(self, answer: Answer) {
        let _ = self.reply.send(answer);
    }
}

#[derive(Debug)]
struct CancelWaiter {
    id: TaskId,
    caller: CancelCaller,
}

#[derive(Debug, Default)]
struct WaitingCancels {
    waiters: VecDeque<CancelWaiter>,
    calls: usize,
}

/// The waiting cancels of one shard.
#[derive(Debug, Default)]
pub(crate) struct Cancels(Mutex<WaitingCancels>);

impl Cancels {
    /// Adds a cancel. Returns the receiver of its answer, and true if the caller must take a
    /// [`turn`](Self::turn) for it.
    pub(super) fn join(&self, id: TaskId, deadline: Instant) -> (oneshot::Receiver<Answer>, bool) {
        let (reply, answer) = oneshot::channel();
        let mut waiting = lock(&self.0);
        let caller = CancelCaller { deadline, reply };
        waiting.waiters.push_back(CancelWaiter { id, caller });
        let may_call = waiting.calls < MAX_CALLS;
        waiting.calls += usize::from(may_call);
        (answer, may_call)
    }

    /// The turn of a caller that [`join`](Self::join) asked to take one.
    pub(super) fn turn(self: &Arc<Self>) -> Turn {
        Turn {
            cancels: Arc::clone(self),
            has_ended: false,
        }
    }
}

/// One of the calls in progress.
#[derive(Debug)]
pub(super) struct Turn {
    cancels: Arc<Cancels>,
    has_ended: bool,
}

impl Drop for Turn {
    /// Ends the turn after a panic, or if the store is closed, so that nobody waits for a call that
    /// never comes.
    fn drop(&mut self) {
        if !self.has_ended {
            let cancels = Arc::clone(&self.cancels);
            let mut waiting = lock(&cancels.0);
            waiting.waiters.clear();
            self.end(&mut waiting);
        }
    }
}

impl Turn {
    /// Takes the waiting cancels, up to one call with different ids. If there are none, gives up
    /// the turn in the same step.
    pub(super) fn take(&mut self) -> Option<Batch> {
        let cancels = Arc::clone(&self.cancels);
        let mut waiting = lock(&cancels.0);
        let (mut batch, mut seen) = (Batch::default(), HashSet::new());
        while batch.ids.len() < MAX_BATCH
            && waiting
                .waiters
                .front()
                .is_some_and(|next| seen.insert(next.id.clone()))
            && let Some(next) = waiting.waiters.pop_front()
        {
            batch.ids.push(next.id);
            batch.callers.push(next.caller);
        }
        if batch.ids.is_empty() {
            self.end(&mut waiting);
            return None;
        }
        Some(batch)
    }

    fn end(&mut self, waiting: &mut WaitingCancels) {
        waiting.calls = waiting.calls.saturating_sub(1);
        self.has_ended = true;
    }
}

/// Cancels of one call.
#[derive(Debug, Default)]
pub(super) struct Batch {
    ids: Vec<TaskId>,
    callers: Vec<CancelCaller>,
}

impl Batch {
    pub(super) fn ids(&self) -> &[TaskId] {
        &self.ids
    }

    /// The latest deadline of its callers.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.callers.iter().map(|caller| caller.deadline).max()
    }

    /// Answers the callers whose deadline passed before the cancel was sent.
    pub(super) fn refuse_late(&mut self, why: impl Fn() -> Error) {
        let now = Instant::now();
        let all = std::mem::take(self);
        for (id, caller) in all.ids.into_iter().zip(all.callers) {
            if caller.deadline <= now {
                caller.answer(Err(why()));
            } else {
                self.ids.push(id);
                self.callers.push(caller);
            }
        }
    }

    /// Answers all callers.
    pub(super) fn answer(self, answers: Result<Vec<Lookup<CancelOutcome>>>) {
        match answers {
            Ok(answers) => {
                // A caller without an answer gets the error that the store is closed, and asks
                // again.
                for (caller, answer) in self.callers.into_iter().zip(answers) {
                    caller.answer(Ok(answer));
                }
            }
            Err(error) => {
                for caller in self.callers {
                    caller.answer(Err(error.clone()));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
