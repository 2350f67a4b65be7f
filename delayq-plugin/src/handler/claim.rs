//! One claim: the call, and the handling of each claimed task.

use std::sync::Arc;
use std::time::Duration;

use delayq_core::store::{AttemptEnd, Bucket, ClaimRequest};
use delayq_core::{ClaimedTask, OnLate, Result, Timestamp};

use super::early_settlement::EarlySettlement;
use super::{Batch, Wiring};
use crate::clock_skew::{CallWindow, ClockSkew};
use crate::ending::Ending;
use crate::slots::Reserved;
use crate::type_context::TypeContext;

/// A task whose lock expires again and again while others run beside it is poison after this many
/// times the number for one that runs alone: a process that never gets quiet must not crash for
/// ever.
const IN_COMPANY: u32 = 4;

/// A claim from one bucket, with the slots reserved for it.
pub(super) struct Claim {
    pub(super) context: Arc<TypeContext>,
    pub(super) bucket: Bucket,
    pub(super) wiring: Wiring,
    /// `None` for a probe, which takes no task.
    pub(super) slots: Option<Reserved>,
}

impl Claim {
    /// Sends the claim. Tasks of an at-most-once type are also settled as done before any of them
    /// starts, and only those with a confirmed settlement are started. During a shutdown they are
    /// given back instead.
    pub(super) async fn run(self) -> Result<Batch> {
        let context = &self.context;
        let (sent_at, before) = (context.clock.elapsed(), context.clock.now());
        let limit = self.slots.as_ref().map_or(0, Reserved::count);
        let options = context.options();
        let request = ClaimRequest::new(limit, options.lock, before)
            .max_lock_expiries(context.max_lock_expiries.saturating_mul(IN_COMPANY))
            .max_alone_expiries(context.max_lock_expiries)
            .fleet(options.fleet)
            .holder(&self.wiring.instance);
        let claimed = context.store.claim(&self.bucket, &request).await?;
        context.report.claimed(&claimed.tasks);
        let after = context.clock.now();
        let skew = ClockSkew::measure(claimed.store_now, CallWindow { before, after });
        let mut batch = Batch {
            start: Vec::with_capacity(claimed.tasks.len()),
            settle: Vec::new(),
            member: None,
            ended: claimed.ended,
            slots: None,
            sent_at,
            next_in: claimed.next_in,
            clock_skew: skew.or_else(|| ClockSkew::of_fence(claimed.high_water, after)),
            high_water: claimed.high_water,
            bucket: claimed.bucket,
        };
        for task in claimed.tasks {
            match self.refusal(&task, claimed.now) {
                None => batch.start.push(task),
                Some(end) => {
                    let ending = Ending::unstarted(task.lock, task.attempt, end);
                    batch.settle.push(ending);
                }
            }
        }
        if context.is_at_most_once() && !batch.start.is_empty() {
            // Entered before they are settled, so that a suspect waits for their end.
            batch.member = context.company.join();
            if self.wiring.stop_at().is_some() || batch.member.is_none() {
                let back = batch.start.drain(..);
                let back =
                    back.map(|task| Ending::give_back(task.lock, &task.history, Duration::ZERO));
                batch.settle.extend(back);
            } else {
                EarlySettlement::new(context, &self.bucket)
                    .settle(&mut batch)
                    .await?;
            }
        }
        batch.slots = self.slots;
        Ok(batch)
    }

    /// The end of a task that must not be started, if so: all its remaining workers have succeeded
    /// (the one that failed no longer exists), or the task is too late, or its last attempt ended
    /// with an expired lock.
    fn refusal(&self, task: &ClaimedTask, now: Timestamp) -> Option<AttemptEnd> {
        let workers = self.context.workers();
        if workers.open(&task.history).next().is_none() {
            return Some(AttemptEnd::Done);
        }
        let options = self.context.options();
        let (lateness, late) = (now.since(task.due_at), options.late);
        let is_first = task.attempt == 1 && task.history.requeues == 0;
        if is_first && lateness > late.after {
            match late.action {
                OnLate::Run => {}
                OnLate::Drop => return Some(AttemptEnd::Expired),
                OnLate::Dead => {
                    let error = format!("late by {lateness:?}, the limit is {:?}", late.after);
                    let succeeded = Vec::new();
                    return Some(AttemptEnd::Dead { error, succeeded });
                }
                OnLate::Spread(_) if task.history.releases > 0 => {}
                OnLate::Spread(span) => {
                    let left = task.expires_at.map(|at| at.since(now));
                    let span = left.map_or(span, |left| left.min(span));
                    let after = span.mul_f64(fastrand::f64());
                    let succeeded = Vec::new();
                    return Some(AttemptEnd::Release { after, succeeded });
                }
            }
        }
        let max_attempts = workers.max_attempts(&task.history);
        // An at-most-once task found in the store has never started, whatever happened to earlier
        // locks.
        let counts = !self.context.is_at_most_once();
        let failures = task.history.failures;
        let error = if max_attempts == 1 && task.attempt > 1 {
            // One attempt is one start, whatever became of it.
            format!(
                "no attempt is left: the lock of attempt {} of 1 expired",
                task.attempt - 1
            )
        } else if failures >= max_attempts {
            format!("no attempt is left: {failures} have failed, and {max_attempts} are allowed")
        } else {
            return None;
        };
        let succeeded = task.history.succeeded.clone();
        counts.then_some(AttemptEnd::Dead { error, succeeded })
    }
}
