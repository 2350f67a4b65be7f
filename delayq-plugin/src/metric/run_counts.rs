//! Counts of this process's work on the tasks of one type.

use std::time::Duration;

use delayq_core::ClaimedTask;
use metrics::{Counter, Histogram};

use super::table::{
    CLAIMED, FAILED, LATENESS, LOCK_EXPIRIES, LOCKS_LOST, RUN_TIME, SETTLED, STARTED, STORE_LOSSES,
    WAKE_UPS,
};
use super::type_labels::TypeLabels;
use crate::events::FailureCause;

/// The end of an attempt, or of a task that a claim ended, as the store has it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Outcome {
    Done,
    Retried,
    Released,
    Dead,
    Expired,
    Cancelled,
}

/// Handles of a served type, created once.
#[derive(Debug)]
pub(crate) struct RunCounts {
    claimed: Counter,
    started: Counter,
    done: Counter,
    retried: Counter,
    released: Counter,
    dead: Counter,
    expired: Counter,
    cancelled: Counter,
    errors: Counter,
    panics: Counter,
    time_limits: Counter,
    stops: Counter,
    lock_expiries: Counter,
    locks_lost: Counter,
    wake_ups: Counter,
    store_losses: Counter,
    lateness: Histogram,
    run_time: Histogram,
}

impl RunCounts {
    pub(super) fn new(labels: &TypeLabels) -> Self {
        let settled = |outcome| labels.counter_of(SETTLED, "outcome", outcome);
        let failed = |cause: FailureCause| labels.counter_of(FAILED, "cause", cause.as_str());
        Self {
            claimed: labels.counter(CLAIMED),
            started: labels.counter(STARTED),
            done: settled("done"),
            retried: settled("retried"),
            released: settled("released"),
            dead: settled("dead"),
            expired: settled("expired"),
            cancelled: settled("cancelled"),
            errors: failed(FailureCause::Error),
            panics: failed(FailureCause::Panic),
            time_limits: failed(FailureCause::TimeLimit),
            stops: failed(FailureCause::Stopped),
            lock_expiries: labels.counter(LOCK_EXPIRIES),
            locks_lost: labels.counter(LOCKS_LOST),
            wake_ups: labels.counter(WAKE_UPS),
            store_losses: labels.counter(STORE_LOSSES),
            lateness: labels.histogram(LATENESS),
            run_time: labels.histogram(RUN_TIME),
        }
    }

    /// A claim brought these tasks.
    pub(crate) fn claimed(&self, tasks: &[ClaimedTask]) {
        self.claimed.increment(tasks.len() as u64);
        let taken_over = tasks.iter().filter(|task| task.is_taken_over).count();
        self.lock_expiries.increment(taken_over as u64);
    }

    /// A claim ended a task whose lock had expired.
    pub(crate) fn lock_expired(&self) {
        self.lock_expiries.increment(1);
    }

    pub(crate) fn started(&self, lateness: Duration) {
        self.started.increment(1);
        self.lateness.record(lateness);
    }

    pub(crate) fn failed(&self, cause: FailureCause, run_time: Duration) {
        let failed = match cause {
            FailureCause::Error => &self.errors,
            FailureCause::Panic => &self.panics,
            FailureCause::TimeLimit => &self.time_limits,
            FailureCause::Stopped => &self.stops,
        };
        failed.increment(1);
        self.ran(run_time);
    }

    /// An attempt has ended.
    pub(crate) fn ran(&self, run_time: Duration) {
        self.run_time.record(run_time);
    }

    pub(crate) fn settled(&self, outcome: Outcome) {
        let settled = match outcome {
            Outcome::Done => &self.done,
            Outcome::Retried => &self.retried,
            Outcome::Released => &self.released,
            Outcome::Dead => &self.dead,
            Outcome::Expired => &self.expired,
            Outcome::Cancelled => &self.cancelled,
        };
        settled.increment(1);
    }

    pub(crate) fn lock_lost(&self) {
        self.locks_lost.increment(1);
    }

    pub(crate) fn woken(&self) {
        self.wake_ups.increment(1);
    }

    pub(crate) fn store_lost_data(&self) {
        self.store_losses.increment(1);
    }
}
