//! What a run counted and measured.

use std::collections::BTreeMap;

use delayq_core::TaskState;
use hdrhistogram::Histogram;

use super::idle::is_for_idle;
use super::view::{Cause, LockView, TaskView};
use crate::event::{CancelAnswer, End, SettleAnswer, Target};
use crate::history::{NEVER, Row, Step, SubmitResult};

/// What was counted and measured.
#[derive(Debug, Default)]
pub struct Figures {
    /// Tasks that somebody sent or that were seen.
    pub tasks: u64,
    /// Tasks that were certainly accepted.
    pub accepted: u64,
    /// Tasks that are lost because a fault took them: within the documented window.
    pub lost_with_cause: u64,
    /// How long they had been accepted when the store lost its last writes.
    pub lost_age: Span,
    /// Answered ends of attempts that a fault undid: how old they were then.
    pub undone_age: Span,
    /// Tasks that are gone by purges, by type and state.
    pub(super) purged: BTreeMap<(String, TaskState), u64>,
    /// Starts of workers.
    pub starts: u64,
    /// Attempts that ended well, and unknown to the effect log.
    pub(super) unwitnessed: u64,
    /// What was answered, by kind of call and answer.
    pub answers: BTreeMap<&'static str, u64>,
    /// Repeats by cause; expired locks by the kind of the fault that explains them.
    pub repeats: BTreeMap<String, u64>,
    /// Due to start, of tasks that were due while nothing was wrong.
    pub lateness_quiet: Span,
    /// Due to start, of the others.
    pub lateness_in_faults: Span,
    /// Tasks that are in neither: a clock that was wrong said when they were due.
    pub due_by_wrong_clock: u64,
    /// First attempts that were seen of tasks that had had others: their locks had expired with no
    /// record.
    pub unseen_expiries: u64,
    /// Due to start, of tasks sent to idle types by other processes while nothing was wrong: how
    /// soon a handler is woken.
    pub lateness_idle: BTreeMap<String, Span>,
    /// How often each kind of fault fired.
    pub faults: BTreeMap<String, u64>,
    /// Shortages of processor or disk that the run's own processes caused; they allow nothing.
    pub own_shortages: BTreeMap<String, u64>,
    /// From the end of a fault to the next start of a due task of each type, by kind.
    pub recovery: BTreeMap<String, Span>,
    /// How often another server was the master than before.
    pub fail_overs: u64,
    /// From when a fault of the store struck until a task was accepted that was sent after that, by
    /// kind.
    pub outage: BTreeMap<String, Span>,
    /// From a fault that cost a holder its lock to the next claim of the task, by kind.
    pub takeover: BTreeMap<String, Span>,
    /// Takeovers before the fault of the store that explains them was over: no time to measure.
    pub takeover_within: BTreeMap<String, u64>,
    /// The takeovers during which no other fault was under way.
    pub(super) takeover_alone: BTreeMap<String, Span>,
    /// When accepted tasks were sent, and answered.
    pub(super) acceptances: Vec<(u64, u64)>,
    pub(super) starts_of_type: BTreeMap<String, Vec<Began>>,
}

/// A start: when, and since when it could have been.
#[derive(Clone, Copy, Debug)]
pub(super) struct Began {
    pub(super) at: u64,
    pub(super) waited_from: u64,
    /// The claim: sent and answered.
    pub(super) claimed: (u64, u64),
    /// Whether its lock was somebody else's before: such tasks are claimed before all that are due.
    pub(super) is_takeover: bool,
    /// Whether a wrong clock may have said when it is due.
    pub(super) is_by_wrong_clock: bool,
    /// A place in the tasks of the history.
    pub(super) task: u32,
}

/// Lengths of time, in microseconds.
#[derive(Clone, Debug)]
pub struct Span(Histogram<u64>);

impl Default for Span {
    fn default() -> Self {
        Self(Histogram::new(3).expect("3 digits are within 0 to 5"))
    }
}

impl Span {
    pub(super) fn add_us(&mut self, us: u64) {
        // A histogram that resizes itself takes every value.
        let _infallible = self.0.record(us);
    }

    /// How many.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.0.len()
    }

    /// So many of 100 were not longer; in microseconds.
    #[must_use]
    pub fn percentile_us(&self, percentile: f64) -> u64 {
        self.0.value_at_percentile(percentile)
    }

    /// The longest; in microseconds.
    #[must_use]
    pub fn max_us(&self) -> u64 {
        self.0.max()
    }
}

impl Figures {
    pub(super) fn add(&mut self, view: &TaskView<'_>) {
        self.tasks += 1;
        for row in view.rows {
            if let Some(answer) = answer(row) {
                *self.answers.entry(answer).or_default() += 1;
            }
            if let Step::Submit { result, .. } = row.step
                && matches!(result, SubmitResult::Accepted { .. })
            {
                self.acceptances.push((row.from, row.to));
            }
        }
        let mut before = None;
        for lock in &view.locks {
            let cause = before.map(|before| view.cause(before, lock));
            if let (Some(before), Some(cause)) = (before, cause) {
                self.repeat(view, before, lock, cause);
            }
            self.start(view, before, lock, cause);
            before = Some(lock);
        }
        self.undone(view);
        self.unwitnessed += unwitnessed(view);
    }

    /// Ends that were answered, and the task was handed out again all the same.
    fn undone(&mut self, view: &TaskView<'_>) {
        for end in view.ends() {
            let Step::Settle { fence, answer, .. } = end.step else {
                continue;
            };
            let span = (end.from, end.to);
            let mut later = view.locks.iter().filter(|lock| lock.fence > fence);
            let again =
                |lock: &LockView<'_>| lock.row.from > end.to && !view.opened_between(end, lock.row);
            if answer.is_some()
                && view.run.allowances.undone(span).is_some()
                && later.any(again)
                && let Some(age_ns) = view.run.allowances.age_at_loss(span)
            {
                self.undone_age.add_us(age_ns / 1_000);
            }
        }
    }

    /// A task is gone because a fault took it, which had been accepted for so long.
    pub(super) fn lost(&mut self, age_ms: Option<u64>) {
        self.lost_with_cause += 1;
        if let Some(ms) = age_ms {
            self.lost_age.add_us(ms * 1_000);
        }
    }

    /// A task is gone because an operator removed all that were in this state.
    pub(super) fn purged(&mut self, task_type: &str, state: TaskState) {
        let key = (task_type.to_owned(), state);
        *self.purged.entry(key).or_default() += 1;
    }

    fn repeat(
        &mut self,
        view: &TaskView<'_>,
        before: &LockView<'_>,
        lock: &LockView<'_>,
        cause: Cause,
    ) {
        let name = match cause {
            Cause::Retry => "retry".to_owned(),
            Cause::Release => "release".to_owned(),
            Cause::Again => "sent or requeued again".to_owned(),
            Cause::Rollback => "rollback".to_owned(),
            Cause::Expired(None) => "expired lock, unexplained".to_owned(),
            Cause::Expired(Some(fault)) => {
                self.taken_over(view, before, lock, fault);
                let kind = view.run.history.faults.get(fault).map(|fault| &fault.kind);
                format!("expired lock: {}", kind.map_or("", String::as_str))
            }
        };
        *self.repeats.entry(name).or_default() += 1;
    }

    fn taken_over(
        &mut self,
        view: &TaskView<'_>,
        before: &LockView<'_>,
        lock: &LockView<'_>,
        number: usize,
    ) {
        let run = view.run;
        let faults = &run.history.faults;
        let Some(fault) = faults.get(number) else {
            return;
        };
        let since = match &fault.target {
            Target::Store => fault.ended_ns,
            // Nobody else serves the type.
            Target::Process(name) if run.is_only_claimer(view.task_type, name) => fault.ended_ns,
            _ => fault.begun_ns,
        };
        // A store that comes back while its fault is still being ended: that is no recovery from
        // it.
        if since > lock.row.to {
            *self.takeover_within.entry(fault.kind.clone()).or_default() += 1;
            return;
        }
        let since = since.max(before.alive);
        let us = lock.row.to.saturating_sub(since) / 1_000;
        self.takeover
            .entry(fault.kind.clone())
            .or_default()
            .add_us(us);
        let others = faults
            .iter()
            .enumerate()
            .filter(|(other, fault)| *other != number && run.disturbs(fault, view.task_type));
        let mut others = others.map(|(_, fault)| (fault.begun_ns, fault.ended_ns));
        if !others.any(|(begun, ended)| begun <= lock.row.to && ended >= since) {
            let alone = self.takeover_alone.entry(fault.kind.clone()).or_default();
            alone.add_us(us);
        }
    }

    fn start(
        &mut self,
        view: &TaskView<'_>,
        before: Option<&LockView<'_>>,
        lock: &LockView<'_>,
        cause: Option<Cause>,
    ) {
        let is_start =
            |row: &&Row| matches!(row.step, Step::Start { fence, .. } if fence == lock.fence);
        let mut starts = view.rows.iter().filter(is_start);
        let Some(start) = starts.next() else { return };
        self.starts += 1 + u64::try_from(starts.count()).unwrap_or(0);
        let clock = &view.run.history.clock;
        let sent = view.rows.first().map_or(0, |row| row.from);
        let free = before.map_or(0, |before| clock.monotonic_ns(before.until.as_millis()));
        let due = clock.monotonic_ns(lock.due.as_millis()).max(sent);
        let due = view.run.resumed_at(view.task_type, (due, start.from));
        let is_takeover = matches!(cause, Some(Cause::Expired(_) | Cause::Rollback));
        let waited_from = if is_takeover { due.max(free) } else { due };
        let waited_from = waited_from.max(set_by(view, lock));
        let is_quiet = (view.run.allowances).is_quiet(waited_from.min(start.from), start.from);
        let is_unseen = lock.attempt > 1 && before.is_none();
        let began = Began {
            at: start.from,
            waited_from,
            claimed: (lock.row.from, lock.row.to),
            is_takeover: is_takeover || is_unseen,
            is_by_wrong_clock: view.is_set_by_wrong_clock(lock.row.to),
            task: start.task,
        };
        match self.starts_of_type.get_mut(view.task_type) {
            Some(starts) => starts.push(began),
            None => {
                self.starts_of_type
                    .insert(view.task_type.to_owned(), vec![began]);
            }
        }
        self.unseen_expiries += u64::from(is_unseen);
        if is_takeover || is_unseen {
            return;
        }
        if is_quiet && before.is_none() && is_for_idle(view) && is_sent_by_another(view, lock) {
            // Due at once: how long it took needs no clock but the monotonic one.
            let of_type = view.task_type.to_owned();
            let lateness = self.lateness_idle.entry(of_type).or_default();
            lateness.add_us(start.from.saturating_sub(sent) / 1_000);
        }
        if view.is_set_by_wrong_clock(lock.row.to) {
            self.due_by_wrong_clock += 1;
            return;
        }
        let late_us = clock.micros(start.from) - lock.due.as_millis() * 1_000;
        let late_us = u64::try_from(late_us).unwrap_or(0);
        let lateness = if is_quiet {
            &mut self.lateness_quiet
        } else {
            &mut self.lateness_in_faults
        };
        lateness.add_us(late_us);
    }
}

/// How many attempts ended well without an effect in the effect log.
fn unwitnessed(view: &TaskView<'_>) -> u64 {
    let ends = view.rows.iter().filter(|row| {
        let Step::End {
            fence,
            end: End::Done,
            ..
        } = row.step
        else {
            return false;
        };
        let mut rows = view.rows.iter();
        !rows.any(|row| match row.step {
            Step::EffectAccepted { fence: by } | Step::EffectRefused { fence: by } => by == fence,
            _ => false,
        })
    });
    ends.count() as u64
}

/// When the due time of this attempt was known for certain: when what set it was answered.
fn set_by(view: &TaskView<'_>, lock: &LockView<'_>) -> u64 {
    let sets = |row: &&Row| match row.step {
        Step::Submit { result, .. } => matches!(
            result,
            SubmitResult::Accepted { .. } | SubmitResult::InDoubt
        ),
        Step::Reschedule { .. } | Step::Requeue { .. } | Step::Settle { .. } => true,
        _ => false,
    };
    let rows = view.rows.iter().filter(|row| row.from <= lock.row.from);
    let times = rows.filter(sets).map(|row| match row.to {
        NEVER => row.from,
        answered => answered,
    });
    times.max().unwrap_or(0).min(lock.row.to)
}

/// Whether somebody else sent the task than claimed it: only then has a wake-up gone from one
/// process to another.
fn is_sent_by_another(view: &TaskView<'_>, lock: &LockView<'_>) -> bool {
    let mut rows = view.rows.iter();
    let sent = rows.find(|row| matches!(row.step, Step::Submit { .. }));
    sent.is_some_and(|sent| view.run.process(sent) != view.run.process(lock.row))
}

fn answer(row: &Row) -> Option<&'static str> {
    Some(match row.step {
        Step::Submit { result, .. } => match result {
            SubmitResult::Accepted { .. } => "submit: accepted",
            SubmitResult::Exists(_) => "submit: exists",
            SubmitResult::Conflict(_) => "submit: conflict",
            SubmitResult::Refused => "submit: refused",
            SubmitResult::InDoubt => "submit: in doubt",
        },
        Step::Claim { .. } => "claim: handed out",
        Step::EndedByClaim { .. } => "claim: ended",
        Step::Settle { end, answer, .. } => match (answer, end) {
            (None, _) => "settle: in doubt",
            (Some(SettleAnswer::LockLost), _) => "settle: lock lost",
            (Some(SettleAnswer::Busy), _) => "settle: busy",
            (_, End::Done) => "settle: done",
            (_, End::Retry { .. }) => "settle: retry",
            (_, End::Release { .. }) => "settle: release",
            (_, End::Dead) => "settle: dead",
            (_, End::Expired) => "settle: expired",
        },
        Step::Cancel { answer } => match answer {
            None => "cancel: in doubt",
            Some(CancelAnswer::Cancelled) => "cancel: cancelled",
            Some(CancelAnswer::Running) => "cancel: running",
            Some(CancelAnswer::Finished(_)) => "cancel: finished",
            Some(CancelAnswer::NotFound) => "cancel: not found",
        },
        Step::Extend { .. } if row.to == NEVER => "extend: in doubt",
        Step::Extend { .. } => "extend: answered",
        Step::Reschedule { .. } => "reschedule",
        Step::Update { .. } => "update",
        Step::Requeue { .. } => "requeue",
        Step::Discard { .. } => "discard",
        Step::EffectAccepted { .. } => "effect: taken",
        Step::EffectRefused { .. } => "effect: refused",
        Step::EffectBegun { others: 0, .. } => "effect: alone",
        Step::EffectBegun { .. } => "effect: beside another",
        Step::Start { .. } | Step::End { .. } | Step::EffectEnded { .. } => return None,
    })
}
