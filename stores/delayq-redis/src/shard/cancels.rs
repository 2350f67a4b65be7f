//! Cancels of one shard made at the same time share calls, without waiting for one another.
//!
//! A cancel that finds fewer than [`MAX_CALLS`] calls under way is sent at once. Others gather, and
//! the next call that is answered takes them along.

use std::collections::{HashSet, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use delayq_core::store::{CancelOutcome, MAX_BATCH};
use delayq_core::{Error, Result, TaskId};
use tokio::sync::oneshot;

use crate::lock::lock;
use crate::scripts::change::Lookup;

/// Calls under way for one shard: one is on its way while the server runs another.
const MAX_CALLS: usize = 2;

type Answer = Result<Lookup<CancelOutcome>>;

/// Who cancels.
#[derive(Debug)]
struct Caller {
    deadline: Instant,
    reply: oneshot::Sender<Answer>,
}

impl Caller {
    /// The caller may have gone away.
    fn answer(self, answer: Answer) {
        let _ = self.reply.send(answer);
    }
}

#[derive(Debug)]
struct Waiter {
    id: TaskId,
    caller: Caller,
}

#[derive(Debug, Default)]
struct Waiting {
    waiters: VecDeque<Waiter>,
    calls: usize,
}

/// The cancels of one shard that wait.
#[derive(Debug, Default)]
pub(crate) struct Cancels(Mutex<Waiting>);

impl Cancels {
    /// Adds a cancel; returns where its answer comes, and whether the caller must take a
    /// [`turn`](Self::turn) for it.
    pub(super) fn join(&self, id: TaskId, deadline: Instant) -> (oneshot::Receiver<Answer>, bool) {
        let (reply, answer) = oneshot::channel();
        let mut waiting = lock(&self.0);
        let caller = Caller { deadline, reply };
        waiting.waiters.push_back(Waiter { id, caller });
        let may_call = waiting.calls < MAX_CALLS;
        waiting.calls += usize::from(may_call);
        (answer, may_call)
    }

    /// The turn of a caller that [`join`](Self::join) has told to take one.
    pub(super) fn turn(self: &Arc<Self>) -> Turn {
        Turn {
            cancels: Arc::clone(self),
            has_ended: false,
        }
    }
}

/// One of the calls under way.
#[derive(Debug)]
pub(super) struct Turn {
    cancels: Arc<Cancels>,
    has_ended: bool,
}

impl Drop for Turn {
    /// After a panic, or where the store is closed: nobody waits for a call that never comes.
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
    /// What waits, up to one call: ids that differ. At the end the turn is given up in the same
    /// step.
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

    fn end(&mut self, waiting: &mut Waiting) {
        waiting.calls = waiting.calls.saturating_sub(1);
        self.has_ended = true;
    }
}

/// Cancels of one call.
#[derive(Debug, Default)]
pub(super) struct Batch {
    ids: Vec<TaskId>,
    callers: Vec<Caller>,
}

impl Batch {
    pub(super) fn ids(&self) -> &[TaskId] {
        &self.ids
    }

    /// The latest of its callers.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.callers.iter().map(|caller| caller.deadline).max()
    }

    /// Answers those who have waited too long to be sent.
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
                // A caller without an answer is told that the store is closed, and asks again.
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
