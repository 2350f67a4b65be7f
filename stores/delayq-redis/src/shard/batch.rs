//! One shard's part of a batch: tasks of several submitters in script calls, and their outcomes.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Instant;

use delayq_core::store::{MAX_BATCH, SubmitOutcome};
use delayq_core::{Error, Result, TaskId};
use tokio::sync::oneshot;

use super::wakeup_hub::WakeupHub;
use crate::connection::{Command, RespValue};
use crate::scripts::ShardKeys;
use crate::scripts::submit::{self, Landed, Prepared, Submitted, WakeCall};

/// Number of bytes in one script call: they are copied in well under a millisecond.
const MAX_CALL_BYTES: usize = 1 << 20;

/// The result for a task that was sent.
#[derive(Debug)]
pub(crate) enum Landing {
    Here(SubmitOutcome),
    /// Like `Here`, in a shard that was completely empty before: the type may be missing from the
    /// list.
    New(SubmitOutcome),
    /// Like `Here`, in a shard that packs far tasks once its type is marked for that.
    Packable(SubmitOutcome),
    /// Not accepted: the shard is sealed and does not know the id. The task has to be sent to
    /// another one.
    Sealed(Prepared),
}

/// Tasks of one shard that wait to be sent, and the channel to their submitter.
#[derive(Debug)]
pub(crate) struct Waiter {
    pub(crate) keys: Arc<ShardKeys>,
    pub(crate) wake: Arc<WakeCall>,
    pub(crate) tasks: Vec<Prepared>,
    pub(crate) deadline: Instant,
    /// `None` once it was answered.
    pub(crate) reply: Option<oneshot::Sender<Vec<Result<Landing>>>>,
}

impl Waiter {
    pub(crate) fn fail(&mut self, error: &Error) {
        let failed = self.tasks.iter().map(|_| Err(error.clone()));
        self.answer(failed.collect());
    }

    fn answer(&mut self, landings: Vec<Result<Landing>>) {
        if let Some(reply) = self.reply.take() {
            // The caller may have gone away.
            let _ = reply.send(landings);
        }
    }
}

/// The waiters of one shard.
#[derive(Debug)]
pub(crate) struct Group {
    keys: Arc<ShardKeys>,
    wake: Arc<WakeCall>,
    /// In the order of their deadlines. A waiter that was answered early keeps its tasks, so that
    /// the others get their own outcomes.
    waiters: Vec<Waiter>,
    calls: Vec<CallBatch>,
}

/// One script call: tasks of the group with different ids.
#[derive(Debug, Default)]
struct CallBatch {
    items: Vec<BatchItem>,
    ids: HashSet<TaskId>,
    bytes: usize,
}

/// A task of the group.
#[derive(Clone, Copy, Debug)]
struct BatchItem {
    member: usize,
    task: usize,
}

impl CallBatch {
    fn takes(&self, task: &Prepared) -> bool {
        let has_room = self.items.len() < MAX_BATCH
            && (self.bytes == 0 || self.bytes + task.bytes() <= MAX_CALL_BYTES);
        has_room && !self.ids.contains(&task.id)
    }

    fn add(&mut self, item: BatchItem, task: &Prepared) {
        self.items.push(item);
        self.ids.insert(task.id.clone());
        self.bytes += task.bytes();
    }
}

impl Group {
    /// Groups these waiters by shard.
    pub(crate) fn all(waiters: Vec<Waiter>) -> Vec<Self> {
        let mut groups: Vec<Self> = Vec::new();
        for waiter in waiters {
            let own = groups
                .iter_mut()
                .find(|group| group.keys.stem == waiter.keys.stem);
            if let Some(group) = own {
                group.add(waiter);
                continue;
            }
            let mut group = Self {
                keys: Arc::clone(&waiter.keys),
                wake: Arc::clone(&waiter.wake),
                waiters: Vec::new(),
                calls: Vec::new(),
            };
            group.add(waiter);
            groups.push(group);
        }
        groups
    }

    /// Adds a waiter. The calls of a shard run one after the other, so that a repeated id meets its
    /// first occurrence.
    fn add(&mut self, waiter: Waiter) {
        let member = self.waiters.len();
        for (index, task) in waiter.tasks.iter().enumerate() {
            let item = BatchItem {
                member,
                task: index,
            };
            if let Some(call) = self.calls.last_mut().filter(|call| call.takes(task)) {
                call.add(item, task);
                continue;
            }
            let mut call = CallBatch::default();
            call.add(item, task);
            self.calls.push(call);
        }
        self.waiters.push(waiter);
    }

    /// The number of its calls.
    pub(crate) fn calls(&self) -> usize {
        self.calls.len()
    }

    pub(crate) fn commands(&self, retention_ms: i64) -> impl Iterator<Item = Command> {
        self.calls.iter().map(move |call| {
            let items = call.items.iter().filter_map(|item| self.task(*item));
            let tasks: Vec<&Prepared> = items.collect();
            submit::command(&self.keys, &self.wake, retention_ms, &tasks)
        })
    }

    fn task(&self, item: BatchItem) -> Option<&Prepared> {
        self.waiters.get(item.member)?.tasks.get(item.task)
    }

    /// The first deadline of a waiter that has no answer yet.
    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        let open = self.waiters.iter().filter(|waiter| waiter.reply.is_some());
        open.map(|waiter| waiter.deadline).min()
    }

    /// Fails the waiters whose deadline has passed.
    pub(crate) fn fail_late(&mut self, deadline: Instant, error: &Error) {
        for waiter in &mut self.waiters {
            if waiter.deadline <= deadline {
                waiter.fail(error);
            }
        }
    }

    /// Answers every waiter.
    pub(crate) fn answer(mut self, answers: Vec<Result<RespValue>>, hub: &WakeupHub) {
        let no_answers = |waiter: &Waiter| waiter.tasks.iter().map(|_| no_answer()).collect();
        let mut landings: Vec<Vec<_>> = self.waiters.iter().map(no_answers).collect();
        for (call, answer) in self.calls.iter().zip(answers) {
            let answer = answer.and_then(submit::read);
            if answer.as_ref().is_ok_and(|submitted| submitted.is_earlier) {
                hub.wake(&self.keys.bucket);
            }
            for (nth, item) in call.items.iter().enumerate() {
                let own = landings.get_mut(item.member);
                let slot = own.and_then(|own| own.get_mut(item.task));
                if let (Some(slot), Some(task)) = (slot, self.task(*item)) {
                    *slot = match &answer {
                        Ok(submitted) => landing(&self.keys, task, submitted, nth),
                        Err(error) => Err(error.clone()),
                    };
                }
            }
        }
        for (waiter, landings) in self.waiters.iter_mut().zip(landings) {
            waiter.answer(landings);
        }
    }
}

fn no_answer() -> Result<Landing> {
    Err(Error::Closed("the Redis store"))
}

/// The result for the `nth` task of a call.
fn landing(
    keys: &ShardKeys,
    task: &Prepared,
    submitted: &Submitted,
    nth: usize,
) -> Result<Landing> {
    match submitted.landed.get(nth) {
        Some(Landed::Here(found)) if submitted.is_new => Ok(Landing::New(*found)),
        Some(Landed::Here(found)) if submitted.wants_to_pack => Ok(Landing::Packable(*found)),
        Some(Landed::Here(found)) => Ok(Landing::Here(*found)),
        Some(Landed::Sealed(fence)) => {
            let mut task = task.clone();
            task.least_fence = task.least_fence.max(*fence);
            Ok(Landing::Sealed(task))
        }
        Some(Landed::Full { pending, limit }) => Err(Error::QueueFull {
            task_type: keys.task_type().to_string(),
            pending: *pending,
            limit: *limit,
        }),
        None => no_answer(),
    }
}

#[cfg(test)]
mod tests;
