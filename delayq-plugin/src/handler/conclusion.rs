//! Conclusion of an attempt: its end, decided by the results of its workers, and its report.

use std::time::Duration;

use delayq_core::store::AttemptEnd;
use tokio::task::JoinError;

use crate::attempt::{AttemptFacts, Lease, LeaseState, Verdict};
use crate::ending::{Ending, LateFailure, WithinEnd};
use crate::events::FailureCause;
use crate::report::Failure;
use crate::status::Status;
use crate::type_context::TypeContext;

/// The context for concluding attempts at one moment.
pub(super) struct Conclusion<'a> {
    pub(super) context: &'a TypeContext,
    pub(super) status: &'a Status,
    /// `Clock::elapsed`.
    pub(super) now: Duration,
}

impl Conclusion<'_> {
    /// The settlement of an attempt whose workers have all returned; see [`Self::conclude`].
    pub(super) fn of_results(&self, mut lease: Lease) -> Option<Ending> {
        let end = self.end_of(&mut lease);
        self.conclude(&lease, end)
    }

    /// The settlement of an attempt past its time limit; see [`Self::conclude`].
    pub(super) fn of_timed_out(&self, lease: &Lease) -> Option<Ending> {
        self.conclude(lease, self.timed_out(lease))
    }

    /// The settlement of an attempt that a shutdown cuts off: it is given back, or has failed if it
    /// is at-most-once.
    pub(super) fn of_cut_off(&self, lease: &Lease) -> Ending {
        let lock = lease.lock.clone();
        if self.context.is_at_most_once() {
            let error = "cut off by the shutdown";
            self.failed(lease, FailureCause::Stopped, error, None);
            return Ending::noted(lock, lease.attempt, error);
        }
        let history = lease.history_so_far(&self.context.workers());
        Ending {
            within: within(lease, None),
            ..Ending::give_back(lock, &history, Duration::ZERO)
        }
    }

    /// Reports how an attempt ended. Returns its settlement, or only its failure, if any, for an
    /// at-most-once attempt, which was settled before it started.
    fn conclude(&self, lease: &Lease, end: AttemptEnd) -> Option<Ending> {
        let at_most_once = self.context.is_at_most_once();
        let error = match &end {
            AttemptEnd::Retry { error, .. } | AttemptEnd::Dead { error, .. } => Some(&**error),
            AttemptEnd::Release { .. } if at_most_once => Some("given back, which it cannot be"),
            _ => None,
        };
        let run_time = self.run_time(lease);
        let note = error.filter(|_| at_most_once);
        let note = note.map(|error| Ending::noted(lease.lock.clone(), lease.attempt, error));
        let is_again = !at_most_once && !lease.is_cancel_requested;
        let retry_in = end.due_again_in().filter(|_| is_again);
        let cause = lease.cause;
        let within = within(lease, error.map(|_| LateFailure { cause, retry_in }));
        if let Some(error) = error.filter(|_| within.is_none()) {
            self.failed(lease, cause, error, retry_in);
        } else if at_most_once && end == AttemptEnd::Done {
            let report = &self.context.report;
            report.succeeded_for_good(&lease.lock.id, lease.attempt, run_time);
        }
        if at_most_once {
            return note;
        }
        Some(Ending {
            run_time,
            is_cancel_requested: lease.is_cancel_requested,
            within,
            ..Ending::unstarted(lease.lock.clone(), lease.attempt, end)
        })
    }

    fn failed(&self, lease: &Lease, cause: FailureCause, error: &str, retry_in: Option<Duration>) {
        let failure = Failure {
            id: &lease.lock.id,
            attempt: lease.attempt,
            cause,
            error,
            run_time: self.run_time(lease),
            retry_in,
        };
        self.status.update(|health| health.failed += 1);
        if self.context.is_at_most_once() {
            self.context.report.failed_for_good(&failure);
        } else {
            self.context.report.failed(&failure);
        }
    }

    fn run_time(&self, lease: &Lease) -> Duration {
        self.now.saturating_sub(lease.started_at)
    }

    fn end_of(&self, lease: &mut Lease) -> AttemptEnd {
        // Workers that succeeded while they were being stopped have done their work.
        let has_succeeded = lease.results.iter().all(|one| one.result.is_ok());
        if matches!(lease.state, LeaseState::Stopping(_)) && !has_succeeded {
            return self.timed_out(lease);
        }
        if lease.is_cut_off {
            // The application's runtime is shutting down. Another instance gets the task, after a
            // wait, because this instance keeps claiming until it is told to stop.
            return AttemptEnd::Release {
                after: self.context.poll,
                succeeded: lease.history_so_far(&self.context.workers()).succeeded,
            };
        }
        let facts = AttemptFacts {
            workers: &self.context.workers(),
            tried: lease.history.tried(),
            history: &lease.history,
            is_stopped: lease.stop.is_stopped() || lease.deadline.at() <= self.now,
        };
        Verdict::of_results(facts, std::mem::take(&mut lease.results))
    }

    fn timed_out(&self, lease: &Lease) -> AttemptEnd {
        // A reload may have changed the limit since the attempt started.
        let limit = lease.limit_at.saturating_sub(lease.started_at);
        let facts = AttemptFacts {
            workers: &self.context.workers(),
            tried: lease.history.tried(),
            history: &lease.history_so_far(&self.context.workers()),
            is_stopped: true,
        };
        Verdict::of_failure(facts, &format!("timed out after {limit:?}"))
    }
}

/// The end of an attempt in a transaction of its worker, if it has asked for that.
fn within(lease: &Lease, failure: Option<LateFailure>) -> Option<WithinEnd> {
    lease.within.is_set().then_some(WithinEnd {
        submitted_at: lease.submitted_at,
        failure,
    })
}

/// An error text for a worker that did not return.
pub(super) fn describe(error: JoinError) -> String {
    match error.try_into_panic() {
        Ok(panic) => {
            let text = panic.downcast_ref::<&str>().map(ToString::to_string);
            let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
            format!("panicked: {}", text.as_deref().unwrap_or("(no message)"))
        }
        Err(_) => "the runtime was shut down".to_owned(),
    }
}
