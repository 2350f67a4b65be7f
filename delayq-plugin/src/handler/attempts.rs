//! Attempts of one handler: the lease table, and the running workers.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use delayq_core::store::{Bucket, ExtendOutcome};
use delayq_core::worker::{Attempt, StopSignal};
use delayq_core::{AttemptHistory, ClaimedTask, Lock, TaskContext, TaskError, TaskResult};
use tokio::task::{AbortHandle, Id, JoinError, JoinSet};
use tracing::{debug, info};

use super::conclusion::{Conclusion, describe};
use crate::attempt::{
    AloneFlag, HeldLock, Invocation, Lease, LeaseDeadline, LeaseState, LeaseStep, QUIET_WITHIN,
    RunningTask, Suspect, WithinFlag, WorkerResult,
};
use crate::company::{Entry, Member};
use crate::ending::Ending;
use crate::events::FailureCause;
use crate::slots::Slot;
use crate::status::Status;
use crate::type_context::TypeContext;

/// Number of an attempt within one handler.
pub(super) type Seq = u64;

/// The end of a worker's task on the application's runtime.
pub(super) type Finished = Result<(Id, TaskResult), JoinError>;

/// A claimed task and its slot.
#[derive(Debug)]
pub(super) struct NewAttempt {
    pub(super) task: ClaimedTask,
    pub(super) slot: Slot,
    /// `Clock::elapsed` before the claim was sent.
    pub(super) claimed_at: Duration,
}

/// One running worker: its attempt, and its index among the workers of the type.
#[derive(Clone, Copy, Debug)]
struct RunningWorker {
    seq: Seq,
    index: usize,
}

/// A lock to extend.
#[derive(Clone, Debug)]
pub(super) struct ToExtend {
    pub(super) seq: Seq,
    pub(super) lock: Lock,
    /// Its attempt runs alone.
    pub(super) is_alone: bool,
}

/// How an attempt stands to the others of this process.
#[derive(Debug, Default)]
struct Standing {
    running_task: Option<RunningTask>,
    /// It runs beside others.
    member: Option<Member>,
    /// It runs alone.
    suspect: Option<Arc<Suspect>>,
    is_alone: AloneFlag,
}

/// The leases that need something, see [`Attempts::take_due`].
#[derive(Debug, Default)]
pub(super) struct DueAttempts {
    pub(super) extend: Vec<ToExtend>,
    pub(super) settle: Vec<Ending>,
}

/// The running attempts. Times are `Clock::elapsed`.
#[derive(Debug)]
pub(super) struct Attempts {
    bucket: Bucket,
    context: Arc<TypeContext>,
    status: Status,
    last_seq: Seq,
    leases: HashMap<Seq, Lease>,
    running: HashMap<Id, RunningWorker>,
    results: JoinSet<TaskResult>,
    /// At most the first timer of a lease.
    next_timer: Duration,
    /// Locks found lost before their attempts were settled, so that each is counted once.
    lost: HashSet<Lock>,
    /// The workers were told to stop, including those that start from now on.
    is_told_to_stop: bool,
}

impl Attempts {
    pub(super) fn new(bucket: Bucket, context: Arc<TypeContext>, status: Status) -> Self {
        Self {
            bucket,
            context,
            status,
            last_seq: 0,
            leases: HashMap::new(),
            running: HashMap::new(),
            results: JoinSet::new(),
            next_timer: Duration::MAX,
            lost: HashSet::new(),
            is_told_to_stop: false,
        }
    }

    /// The number of running attempts, including those past their lock or time limit.
    pub(super) fn len(&self) -> usize {
        self.leases.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.leases.is_empty()
    }

    /// The earliest time at which something may be due.
    pub(super) fn next_timer(&self) -> Option<Duration> {
        (!self.leases.is_empty()).then_some(self.next_timer)
    }

    /// Starts the workers of a task. Fails with its release if it may not start now.
    pub(super) fn start(&mut self, new: NewAttempt, now: Duration) -> Result<(), Box<Ending>> {
        let (mut task, context) = (new.task, Arc::clone(&self.context));
        let Standing {
            running_task,
            member,
            suspect,
            is_alone,
        } = match self.standing(&task, new.claimed_at, now) {
            Ok(standing) => standing,
            Err(after) => {
                let ending = Ending::give_back(task.lock, &task.history, after);
                return Err(Box::new(ending));
            }
        };
        let stop = StopSignal::new();
        if self.is_told_to_stop {
            stop.stop();
        }
        let facts = facts(&context, &mut task);
        let within = WithinFlag::default();
        context.report.started(&facts);
        // An at-most-once task is settled before it starts, so it has no lock to extend.
        let at_most_once = context.is_at_most_once();
        let lock_for = if at_most_once {
            Duration::MAX
        } else {
            context.options().lock
        };
        let deadline = LeaseDeadline::new(new.claimed_at, lock_for);
        let waits_for = suspect.as_ref().map_or(Duration::ZERO, |_| QUIET_WITHIN);
        let invocation = Invocation {
            cx: TaskContext::new(facts, stop.clone()).with_history(&task.history),
            message: task.message.into(),
            worker: 0,
            is_only_worker: false,
            tasks: Arc::clone(&context.tasks),
            deadline: (!at_most_once).then(|| deadline.clone()),
            suspect,
            within: within.clone(),
        };
        self.last_seq += 1;
        let workers = self.call_workers(&invocation, &task.history);
        let lease = Lease {
            lock: task.lock,
            attempt: task.attempt,
            history: task.history,
            stop,
            state: LeaseState::Good,
            results: Vec::with_capacity(workers.len()),
            is_cut_off: false,
            workers,
            lock_for,
            lock_until: task.lock_until,
            submitted_at: task.submitted_at,
            deadline,
            extend_at: new.claimed_at.saturating_add(lock_for / 3),
            is_extension_failed: false,
            is_cancel_requested: false,
            started_at: now,
            limit_at: now.saturating_add(context.options().timeout.saturating_add(waits_for)),
            cause: FailureCause::default(),
            running_task,
            is_alone,
            within,
            _member: member,
            _slot: new.slot,
        };
        self.next_timer = self.next_timer.min(lease.timer());
        self.leases.insert(self.last_seq, lease);
        Ok(())
    }

    /// Calls the workers of the last attempt that have not succeeded yet.
    fn call_workers(
        &mut self,
        invocation: &Invocation,
        history: &AttemptHistory,
    ) -> Vec<AbortHandle> {
        let (context, seq) = (Arc::clone(&self.context), self.last_seq);
        let (mut handles, workers) = (Vec::with_capacity(1), context.workers());
        let is_only_worker = workers.open(history).count() == 1;
        for (index, worker) in workers.open(history) {
            let invocation = Invocation {
                worker: index,
                is_only_worker,
                ..invocation.clone()
            };
            let handle = invocation.start(worker.clone(), &mut self.results, &context.app);
            self.running
                .insert(handle.id(), RunningWorker { seq, index });
            handles.push(handle);
        }
        handles
    }

    /// How the attempt of a task stands to the others of this process.
    ///
    /// # Errors
    /// It may not start now: the wait with which it is given back.
    fn standing(
        &self,
        task: &ClaimedTask,
        claimed_at: Duration,
        now: Duration,
    ) -> Result<Standing, Duration> {
        let context = &self.context;
        let running_task = context.running.enter(&task.lock.id);
        let mut standing = Standing {
            running_task,
            ..Standing::default()
        };
        if context.is_at_most_once() {
            // It is already settled as done: it runs now or never.
            standing.member = Some(context.company.join_anyway());
            return Ok(standing);
        }
        if self.is_too_late(task, claimed_at, now) {
            return Err(Duration::ZERO);
        }
        if standing.running_task.is_none() {
            debug!(bucket = %self.bucket, id = %task.lock.id,
                "given back: the worker of an earlier attempt is still running here");
            return Err(context.poll);
        }
        // While another attempt runs alone, this process claims nothing.
        if Suspect::is_one(&task.history, context.max_lock_expiries) {
            let entry = context.company.enter_alone(&context.clock);
            let solitude = match entry.ok_or(Duration::ZERO)? {
                Entry::Alone(solitude) => solitude,
                Entry::Beside(member) => {
                    standing.member = Some(member);
                    return Ok(standing);
                }
            };
            let held = HeldLock {
                store: Arc::clone(&context.store),
                bucket: self.bucket.clone(),
                lock: task.lock.clone(),
                lock_for: context.options().lock,
                is_alone: standing.is_alone.clone(),
            };
            let workers = context.workers().open(&task.history).count();
            let (clock, app) = (Arc::clone(&context.clock), context.app.clone());
            standing.suspect = Some(Suspect::new(held, workers, solitude, clock, app));
        } else {
            let member = context.company.join().ok_or(Duration::ZERO)?;
            standing.member = Some(member);
        }
        Ok(standing)
    }

    /// True if the answer of the claim came too late because the store hung or this process was
    /// suspended. A third of the lock must be left, or the lock would expire before the first
    /// extension is answered. But a store that is always this slow must not keep a task from
    /// starting for ever.
    fn is_too_late(&self, task: &ClaimedTask, claimed_at: Duration, now: Duration) -> bool {
        let lock = self.context.options().lock;
        let is_first = task.history.releases == 0;
        let fair = if is_first { lock / 3 * 2 } else { lock };
        claimed_at.saturating_add(fair) <= now
    }

    /// Takes the locks to extend, and the ends of attempts past their time limit.
    pub(super) fn take_due(&mut self, now: Duration) -> DueAttempts {
        let (mut due, mut timed_out) = (DueAttempts::default(), Vec::new());
        if self.next_timer > now {
            return due;
        }
        self.next_timer = Duration::MAX;
        for (seq, lease) in &mut self.leases {
            while let Some(step) = lease.step(now) {
                match step {
                    LeaseStep::Extend => due.extend.push(ToExtend {
                        seq: *seq,
                        lock: lease.lock.clone(),
                        is_alone: lease.is_alone.is_set(),
                    }),
                    LeaseStep::Expired => {
                        let how = "its lock expired before it could be extended; \
                                   told the worker to stop";
                        self.context
                            .report
                            .lock_lost(&lease.lock.id, lease.attempt, how);
                        self.status.update(|health| health.locks_lost += 1);
                        self.lost.insert(lease.lock.clone());
                    }
                    LeaseStep::Stopped => lease.cause = FailureCause::TimeLimit,
                    LeaseStep::TimedOut => {
                        lease.cause = FailureCause::TimeLimit;
                        timed_out.push(*seq);
                    }
                }
            }
            self.next_timer = self.next_timer.min(lease.timer());
        }
        for lease in timed_out.iter().filter_map(|seq| self.leases.get(seq)) {
            due.settle.extend(self.conclusion(now).of_timed_out(lease));
        }
        due
    }

    /// Fires `cancelled()` of all attempts, once.
    pub(super) fn tell_to_stop(&mut self) {
        if std::mem::replace(&mut self.is_told_to_stop, true) || self.is_empty() {
            return;
        }
        let running = self.len();
        info!(bucket = %self.bucket, running, "the grace time is over; told the workers to stop");
        self.leases.values().for_each(|lease| lease.stop.stop());
    }

    /// Stops the workers that can be stopped, and gives their tasks back.
    pub(super) fn give_back_all(&mut self, now: Duration) -> Vec<Ending> {
        let mut settle = Vec::new();
        let conclusion = Conclusion {
            context: &self.context,
            status: &self.status,
            now,
        };
        for lease in self.leases.values_mut() {
            if lease.state == LeaseState::Concluded {
                continue;
            }
            lease.conclude();
            let back = conclusion.of_cut_off(lease);
            if !back.is_noted && back.within.is_none() {
                info!(bucket = %self.bucket, id = %lease.lock.id, "given back by the shutdown");
            }
            settle.push(back);
        }
        settle
    }

    /// The next worker to finish; `None` if none is running.
    pub(super) async fn next_finished(&mut self) -> Option<Finished> {
        self.results.join_next_with_id().await
    }

    /// A worker that has already finished.
    pub(super) fn try_next_finished(&mut self) -> Option<Finished> {
        self.results.try_join_next_with_id()
    }

    /// Handles a finished worker. Returns the end of its attempt if this was the last of its
    /// workers and the attempt has not been settled.
    pub(super) fn finish(&mut self, finished: Finished, now: Duration) -> Option<Ending> {
        let task = finished
            .as_ref()
            .map_or_else(JoinError::id, |(task, _)| *task);
        let RunningWorker { seq, index } = self.running.remove(&task)?;
        let lease = self.leases.get_mut(&seq)?;
        let result = match finished {
            Ok((_, result)) => result,
            Err(error) => {
                if error.is_cancelled() {
                    lease.is_cut_off = true;
                } else if lease.cause == FailureCause::Error {
                    lease.cause = FailureCause::Panic;
                }
                Err(TaskError::Retry(describe(error)))
            }
        };
        lease.results.push(WorkerResult { index, result });
        if lease.results.len() < lease.workers.len() {
            return None;
        }
        let lease = self.leases.remove(&seq)?;
        let running = self.leases.len();
        self.status.update(|health| health.running = running);
        if lease.state == LeaseState::Concluded || lease.is_settled() {
            return None;
        }
        self.conclusion(now).of_results(lease)
    }

    fn conclusion(&self, now: Duration) -> Conclusion<'_> {
        Conclusion {
            context: &self.context,
            status: &self.status,
            now,
        }
    }

    /// The attempt has been settled, successfully or not. Returns true if its lock was known to be
    /// lost.
    pub(super) fn settled(&mut self, lock: &Lock) -> bool {
        !self.lost.is_empty() && self.lost.remove(lock)
    }

    /// Handles the outcome of an extension that was sent at `sent_at`.
    pub(super) fn extended(&mut self, seq: Seq, outcome: ExtendOutcome, sent_at: Duration) {
        let Some(lease) = self.leases.get_mut(&seq) else {
            return;
        };
        match outcome {
            ExtendOutcome::Extended(until) => lease.extended(sent_at, until),
            ExtendOutcome::CancelRequested(until) => {
                lease.extended(sent_at, until);
                lease.is_cancel_requested = true;
                lease.stop.stop();
            }
            // Its transaction may be committed: the settlement will tell.
            ExtendOutcome::LockLost if lease.within.is_set() => {}
            // Otherwise the loss is already known, or the attempt is past its time limit.
            ExtendOutcome::LockLost if lease.lose() => {
                let (id, how) = (&lease.lock.id, "somebody else has its lock");
                self.context.report.lock_lost(id, lease.attempt, how);
                self.lost.insert(lease.lock.clone());
                self.status.update(|health| health.locks_lost += 1);
            }
            _ => {}
        }
        self.next_timer = self.next_timer.min(lease.timer());
    }

    /// True if a failed extension has still to be repeated.
    pub(super) fn awaits_extension(&self) -> bool {
        let mut leases = self.leases.values();
        leases.any(|lease| lease.is_extension_failed && lease.needs_extension())
    }

    /// An extension failed or is in doubt; the next try is at `retry_at`.
    pub(super) fn extend_failed(&mut self, seq: Seq, retry_at: Duration) {
        if let Some(lease) = self.leases.get_mut(&seq) {
            lease.is_extension_failed = true;
            lease.extend_again_at(retry_at);
            self.next_timer = self.next_timer.min(lease.timer());
        }
    }
}

/// The facts about the attempt for its workers.
fn facts(context: &TypeContext, task: &mut ClaimedTask) -> Attempt {
    Attempt {
        task_type: context.task_type.clone(),
        id: task.lock.id.clone(),
        attempt: task.attempt,
        tried: task.history.tried(),
        due_at: task.due_at,
        claimed_at: task.lock_until.minus(context.options().lock),
        submitted_at: task.submitted_at,
        fence: task.lock.fence,
        headers: std::mem::take(&mut task.headers),
    }
}
