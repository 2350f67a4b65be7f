//! Submit batcher: submits made at the same time share round trips, without waiting for one
//! another.
//!
//! A submit is sent at once if fewer than [`MAX_BATCHES`] batches are in progress to its server.
//! Other submits collect in a queue and are sent together once a batch is answered. Each server has
//! a queue of its own, so that one that is down does not block the others.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use delayq_core::store::MAX_BATCH;
use delayq_core::{Error, Result};
use futures_util::FutureExt;
use tokio::sync::oneshot;
use tokio::time::sleep_until;

use super::batch::{Group, Landing, Waiter};
use super::wakeup_hub::WakeupHub;
use crate::connection::{Class, Connections, PipelineResult, Server};
use crate::lock::lock;
use crate::memory_limit::Watermark;
use crate::scripts::ShardKeys;
use crate::scripts::submit::{Prepared, WakeCall};

/// Number of batches in progress to one server: enough to keep it busy while one is built and one
/// is on its way back, and few enough that tasks collect. Between 2 and 6 it makes no difference on
/// one machine.
const MAX_BATCHES: usize = 4;
/// Number of tasks in one batch: enough to keep the server busy while the next one is built.
const MAX_TASKS: usize = 8 * MAX_BATCH;

/// The waiting submits of one server.
#[derive(Debug, Default)]
struct ServerQueue {
    waiting: VecDeque<Waiter>,
    under_way: usize,
}

/// The batcher of one store.
#[derive(Debug)]
pub(crate) struct Batcher {
    connections: Connections,
    hub: Arc<WakeupHub>,
    retention_ms: i64,
    watermark: Option<Watermark>,
    /// By server; 0 if no server is known for a slot.
    queues: Mutex<HashMap<usize, ServerQueue>>,
}

impl Batcher {
    pub(crate) fn new(
        connections: &Connections,
        hub: Arc<WakeupHub>,
        retention_ms: i64,
        watermark: Option<Watermark>,
    ) -> Arc<Self> {
        Arc::new(Self {
            connections: connections.clone(),
            hub,
            retention_ms,
            watermark,
            queues: Mutex::default(),
        })
    }

    /// Submits tasks to a shard, in order; one answer for each. They are answered or given up
    /// within the call timeout.
    pub(crate) async fn submit(
        self: &Arc<Self>,
        keys: Arc<ShardKeys>,
        wake: Arc<WakeCall>,
        tasks: Vec<Prepared>,
    ) -> Vec<Result<Landing>> {
        let deadline = Instant::now() + self.connections.timeout();
        if let Some(watermark) = &self.watermark
            && let Err(full) = watermark.check(keys.slot, deadline).await
        {
            return tasks.iter().map(|_| Err(full.clone())).collect();
        }
        let mut answers = Vec::with_capacity(tasks.len().div_ceil(MAX_TASKS));
        let mut tasks = tasks.into_iter();
        while tasks.len() > 0 {
            let (reply, answer) = oneshot::channel();
            let tasks: Vec<Prepared> = tasks.by_ref().take(MAX_TASKS).collect();
            answers.push((answer, tasks.len()));
            self.enqueue(Waiter {
                keys: Arc::clone(&keys),
                wake: Arc::clone(&wake),
                tasks,
                deadline,
                reply: Some(reply),
            });
        }
        let mut landings = Vec::new();
        for (answer, count) in answers {
            let closed = || {
                (0..count)
                    .map(|_| Err(Error::Closed("the Redis store")))
                    .collect()
            };
            landings.extend(answer.await.unwrap_or_else(|_| closed()));
        }
        landings
    }

    fn enqueue(self: &Arc<Self>, waiter: Waiter) {
        let server = self.server_of(&waiter);
        let mut queues = lock(&self.queues);
        let queue = queues.entry(server).or_default();
        queue.waiting.push_back(waiter);
        if queue.under_way < MAX_BATCHES {
            queue.under_way += 1;
            let driver = Driver {
                batcher: Arc::clone(self),
                server,
                has_ended: false,
            };
            self.connections.spawn(driver.run());
        }
    }

    fn server_of(&self, waiter: &Waiter) -> usize {
        let server = self.connections.routing().server_of(waiter.keys.slot);
        server.map_or(0, |server| Arc::as_ptr(&server).addr())
    }
}

/// Sends the batches of one queue until nothing waits.
struct Driver {
    batcher: Arc<Batcher>,
    server: usize,
    has_ended: bool,
}

impl Drop for Driver {
    /// Frees the batch slot of the queue even after a panic.
    fn drop(&mut self) {
        if !self.has_ended
            && let Some(queue) = lock(&self.batcher.queues).get_mut(&self.server)
        {
            queue.under_way = queue.under_way.saturating_sub(1);
        }
    }
}

impl Driver {
    async fn run(mut self) {
        while let Some(waiters) = self.take() {
            self.send(waiters).await;
        }
    }

    /// Takes the waiting submits, up to a batch. If there are none, gives up the driver's slot in
    /// the same step.
    fn take(&mut self) -> Option<Vec<Waiter>> {
        let mut queues = lock(&self.batcher.queues);
        let queue = queues.get_mut(&self.server)?;
        let (mut taken, mut tasks) = (Vec::new(), 0);
        while tasks < MAX_TASKS
            && let Some(waiter) = queue.waiting.pop_front()
        {
            tasks += waiter.tasks.len();
            taken.push(waiter);
        }
        if !taken.is_empty() {
            return Some(taken);
        }
        queue.under_way = queue.under_way.saturating_sub(1);
        if queue.under_way == 0 {
            queues.remove(&self.server);
        }
        self.has_ended = true;
        None
    }

    async fn send(&self, waiters: Vec<Waiter>) {
        let routing = self.batcher.connections.routing();
        let now = Instant::now();
        let (late, waiters): (Vec<_>, Vec<_>) = waiters
            .into_iter()
            .partition(|waiter| waiter.deadline <= now);
        for mut waiter in late {
            let why = routing.why_not_sent(Class::Submit, waiter.keys.slot);
            waiter.fail(&why);
        }
        let Some(first) = waiters.first() else {
            return;
        };
        let server = routing.server_of(first.keys.slot);
        let is_here = |waiter: &Waiter| self.batcher.server_of(waiter) == self.server;
        match server {
            Some(server) if server.is_up(Class::Submit) && waiters.iter().all(is_here) => {
                self.send_to(&server, waiters).await;
            }
            server => {
                if waiters.iter().all(is_here) {
                    let deadline = waiters.iter().map(|waiter| waiter.deadline).min();
                    let deadline = deadline.unwrap_or(now);
                    routing
                        .changed(server.as_ref(), Class::Submit, deadline)
                        .await;
                }
                for waiter in waiters {
                    self.batcher.enqueue(waiter);
                }
            }
        }
    }

    /// Sends the tasks of `waiters` in one pipeline, and answers each by its deadline at the
    /// latest.
    async fn send_to(&self, server: &Arc<Server>, waiters: Vec<Waiter>) {
        let started = Instant::now();
        let mut groups = Group::all(waiters);
        let commands = groups
            .iter()
            .flat_map(|group| group.commands(self.batcher.retention_ms));
        let mut answers = std::pin::pin!(server.exchange(Class::Submit, commands.collect()));
        while let Some(deadline) = groups.iter().filter_map(Group::next_deadline).min() {
            tokio::select! {
                answers = &mut answers => {
                    self.answer(groups, answers);
                    return;
                }
                () = sleep_until(deadline.into()) => {
                    for group in &mut groups {
                        group.fail_late(deadline, &server.no_answer());
                    }
                }
            }
        }
        server.suspect(Class::Submit, started.elapsed());
    }

    /// Answers the submitters. Calls that have to go to another server continue separately, and
    /// block no other shard.
    fn answer(&self, groups: Vec<Group>, answers: Vec<PipelineResult>) {
        let routing = self.batcher.connections.routing();
        let mut answers = answers.into_iter();
        for group in groups {
            let own: Vec<PipelineResult> = answers.by_ref().take(group.calls()).collect();
            let (hub, routing) = (Arc::clone(&self.batcher.hub), routing.clone());
            let mut answering = Box::pin(async move {
                let deadline = group.next_deadline().unwrap_or_else(Instant::now);
                let mut all = Vec::with_capacity(own.len());
                for sent in own {
                    all.push(match sent {
                        PipelineResult::Answered(answer) => answer,
                        PipelineResult::Redirected(command) => {
                            routing.call(Class::Submit, command, deadline).await
                        }
                    });
                }
                group.answer(all, &hub);
            });
            // Usually everything is answered already, and no submitter waits for another task.
            if answering.as_mut().now_or_never().is_none() {
                self.batcher.connections.spawn(answering);
            }
        }
    }
}

#[cfg(test)]
mod tests;
