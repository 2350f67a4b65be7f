//! One task of a run, as the rules look at it.

use delayq_core::TaskState;
use delayq_core::store::CLOCK_GUARD;
use delayq_core::time::duration_ms;

use super::allowance::Loss;
use crate::event::{Asked, CancelAnswer, End, SettleAnswer};
use crate::history::{NEVER, Row, Step, Stored, SubmitResult};

mod lock;
mod run;

pub(super) use lock::LockView;
pub(super) use run::Run;

/// Handlers extend a lock after this part of its time, and try again until it ends: a fault that is
/// over before the last such part has cost nobody a lock.
const PART: u64 = 3;
/// The longest pause of a client that could not reach the store, before it connects again.
const RECONNECT_NS: u64 = 500_000_000;

/// One task.
#[derive(Debug)]
pub(super) struct TaskView<'a> {
    pub(super) run: &'a Run<'a>,
    pub(super) name: &'a str,
    pub(super) task_type: &'a str,
    pub(super) rows: &'a [Row],
    pub(super) stored: Option<Stored>,
    /// By fence.
    pub(super) locks: Vec<LockView<'a>>,
}

/// Why a lock was given although there had been one before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cause {
    /// The attempt before was to be repeated.
    Retry,
    /// The attempt before was given back.
    Release,
    /// The task was sent or requeued anew.
    Again,
    /// A fault has undone something.
    Rollback,
    /// The lock before expired, because of this fault.
    Expired(Option<usize>),
}

fn type_of(task: &str) -> &str {
    task.split_once('/')
        .map_or(task, |(task_type, _)| task_type)
}

impl<'a> TaskView<'a> {
    pub(super) fn new(run: &'a Run<'a>, number: usize) -> Self {
        let name = run.history.tasks.get(number).map_or("", String::as_str);
        let rows = run.history.rows_of(number);
        Self {
            run,
            name,
            task_type: type_of(name),
            rows,
            stored: run.history.stored.get(number).copied().flatten(),
            locks: lock::locks(run.history, rows),
        }
    }

    pub(super) fn lines(&self) -> Vec<String> {
        let origin = self.rows.first().map_or(0, |row| row.from);
        let history = self.run.history;
        let mut lines: Vec<_> = self
            .rows
            .iter()
            .map(|row| history.line(row, origin))
            .collect();
        lines.push(match self.stored {
            Some(stored) => format!("{:>15}  {stored:?}", "at the end"),
            None => format!("{:>15}  not in the store", "at the end"),
        });
        lines
    }

    pub(super) fn lock(&self, fence: u64) -> Option<&LockView<'a>> {
        self.locks.iter().find(|lock| lock.fence == fence)
    }

    /// Settlements with this fence that took effect, or may have.
    pub(super) fn settles(&self, fence: u64) -> impl Iterator<Item = (&'a Row, End)> {
        let rows = self.rows;
        rows.iter().filter_map(move |row| match row.step {
            Step::Settle {
                fence: settled,
                end,
                answer: Some(SettleAnswer::Settled) | None,
            } if settled == fence => Some((row, end)),
            _ => None,
        })
    }

    /// What ended the task, or may have: a settlement, a claim, a cancel.
    pub(super) fn ends(&self) -> impl Iterator<Item = &'a Row> {
        self.rows.iter().filter(|row| match row.step {
            Step::Settle { end, answer, .. } => {
                let ends = matches!(end, End::Done | End::Dead | End::Expired);
                ends && SettleAnswer::may_count(answer)
            }
            Step::Cancel { answer } => matches!(answer, Some(CancelAnswer::Cancelled) | None),
            Step::EndedByClaim { .. } => true,
            _ => false,
        })
    }

    /// What lets a task run (again), or may have: a submit, a requeue. From and to.
    pub(super) fn openers(&self) -> impl Iterator<Item = (u64, u64)> {
        let rows = self.rows.iter().filter(|row| match row.step {
            Step::Submit { result, .. } => match result {
                SubmitResult::Accepted { .. } => true,
                SubmitResult::InDoubt => !self.repeats_a_request(row),
                _ => false,
            },
            Step::Requeue { .. } => true,
            _ => false,
        });
        let lost = self.run.history.lost_operations.iter();
        let lost = lost.filter(|(task_type, _, requeue)| *requeue && task_type == self.task_type);
        rows.map(|row| (row.from, row.to))
            .chain(lost.map(|(_, from, _)| (*from, NEVER)))
    }

    /// Whether the submit in `row` is one that the store knows already, as long as it remembers
    /// ends.
    fn repeats_a_request(&self, row: &Row) -> bool {
        let plan = self.run.history.plan.as_ref();
        if plan.is_none_or(|plan| plan.retention_ms == 0) {
            return false;
        }
        let Step::Submit { digest, when, .. } = row.step else {
            return false;
        };
        self.rows.iter().any(|other| match other.step {
            Step::Submit {
                digest: d,
                when: w,
                result,
                ..
            } if d == digest && w == when => match result {
                SubmitResult::Accepted { .. } => true,
                SubmitResult::InDoubt => other.from < row.from,
                _ => false,
            },
            _ => false,
        })
    }

    /// Whether the task may have been sent or requeued between the two.
    pub(super) fn opened_between(&self, earlier: &Row, later: &Row) -> bool {
        self.opened_until(earlier, later.to)
    }

    /// Whether the task may have been sent or requeued after `earlier`, a step that only a task
    /// which is there can take, and before `until`. What put it there is not counted.
    pub(super) fn opened_until(&self, earlier: &Row, until: u64) -> bool {
        let (mut before, mut beside) = (0, 0);
        for (from, to) in self.openers() {
            if to < earlier.from {
                before += 1;
            } else if from <= earlier.to {
                beside += 1;
            } else if from <= until {
                return true;
            }
        }
        beside > usize::from(before == 0)
    }

    /// Whether a fault may have undone something of this task after `earlier` had been given, and
    /// before `later` was.
    pub(super) fn undone_between(&self, earlier: &LockView<'_>, later: &LockView<'_>) -> bool {
        let between = (earlier.row.from, later.row.to);
        let mut rollbacks = self.run.allowances.rollbacks(between);
        rollbacks.any(|window| {
            let mut rows = self.rows.iter().filter(|row| row.from <= later.row.to);
            rows.any(|row| window.touches(row.from, row.to))
                && !self.is_extended_after(earlier, window.to)
        })
    }

    /// Whether `lock` was extended after `lost`: so it had not been undone.
    fn is_extended_after(&self, lock: &LockView<'_>, lost: u64) -> bool {
        let untouched = self.settles(lock.fence).all(|(row, _)| row.from > lost);
        untouched && lock.alive > lost && lock.alive > lock.row.from
    }

    /// How many locks there may have been between the end of `earlier`, or else the beginning, and
    /// `later` that nobody knows of, because the answers to their claims were lost. Each has to
    /// have expired.
    pub(super) fn hidden_between(&self, earlier: Option<u64>, later: &LockView<'_>) -> u32 {
        let first = self.rows.first().map_or(later.row.from, |row| row.from);
        let span = (earlier.unwrap_or(first), later.row.to);
        let is_set = self.run.clock_off(later.row, NEVER).is_set;
        let length_ns = later
            .length_ns
            .saturating_sub(self.run.allowances.skew_ns());
        let length_ns = if is_set { 0 } else { length_ns };
        self.run.hidden.locks(self.task_type, span, length_ns)
    }

    /// Whether there may have been a claim after `from` that took this task and whose answer was
    /// lost.
    pub(super) fn hidden_after(&self, from: u64) -> bool {
        self.run.hidden.locks(self.task_type, (from, NEVER), 0) > 0
    }

    /// Whether a server may have given the task back, to be due at once, from a claim before `lock`
    /// whose answer was lost.
    pub(super) fn is_given_back(&self, lock: &LockView<'_>) -> bool {
        let first = self.rows.first().map_or(lock.row.from, |row| row.from);
        let claims = self
            .run
            .hidden
            .locks(self.task_type, (first, lock.row.to), 0);
        self.run.gives_back() && claims > 0
    }

    /// Whether `later` was taken over from an expired lock: that of `before`, or one that nobody
    /// knows of.
    pub(super) fn is_takeover(&self, before: Option<&LockView<'_>>, later: &LockView<'_>) -> bool {
        let Some(before) = before else {
            return later.attempt > 1 && self.hidden_between(None, later) > 0;
        };
        let (next, settled) = match self.cause(before, later) {
            Cause::Expired(_) | Cause::Rollback => return true,
            Cause::Retry => (before.attempt + 1, before.fence),
            Cause::Release => (before.attempt, before.fence),
            Cause::Again => (1, before.fence),
        };
        let mut settles = self.settles(settled).map(|(row, _)| row.from);
        let since = settles.next().unwrap_or(before.row.from);
        later.attempt > next && self.hidden_between(Some(since), later) > 0
    }

    /// Why `next` was given although there had been `lock`.
    pub(super) fn cause(&self, lock: &LockView<'_>, next: &LockView<'_>) -> Cause {
        let mut settles = self.settles(lock.fence);
        let again = settles.find_map(|(row, end)| match end {
            _ if row.from > next.row.to => None,
            End::Retry { .. } => Some(Cause::Retry),
            End::Release { .. } => Some(Cause::Release),
            End::Done | End::Dead | End::Expired => None,
        });
        if let Some(cause) = again {
            return cause;
        }
        if self.opened_between(lock.row, next.row) {
            return Cause::Again;
        }
        match self.lost_lock(lock, next) {
            Some(fault) => Cause::Expired(Some(fault)),
            None if self.undone_between(lock, next) => Cause::Rollback,
            None => Cause::Expired(None),
        }
    }

    /// The fault that cost the holder of `lock` its lock, so that `next` was given.
    pub(super) fn lost_lock(&self, lock: &LockView<'_>, next: &LockView<'_>) -> Option<usize> {
        let ran_out = lock.ran_out().min(next.row.to);
        let process = self.run.history.process_of(lock.row);
        let lived_on = process.is_some_and(|process| process.last_ns > ran_out);
        let late = (lock.length_ns / PART).max(RECONNECT_NS);
        let needed = lock.ran_out().saturating_sub(late);
        self.run.allowances.lost_lock(Loss {
            holder: self.run.process(lock.row),
            task: self.name,
            alive: lock.alive,
            lasts_to: if lived_on { needed } else { 0 },
            ran_out,
            taker: self.run.process(next.row),
            taken: (next.row.from, next.row.to),
        })
    }

    /// Whether a clock may have been wrong when somebody said, by `until`, when it is due.
    pub(super) fn is_set_by_wrong_clock(&self, until: u64) -> bool {
        let mut rows = self.rows.iter().filter(|row| row.from <= until);
        rows.any(|row| {
            let sets = matches!(
                row.step,
                Step::Submit { .. }
                    | Step::Reschedule { .. }
                    | Step::Requeue { .. }
                    | Step::Settle { .. }
                    | Step::Claim { .. }
            );
            sets && !self.run.clock_off(row, until).is_none()
        })
    }

    /// When a cancel first found it running, or may have: then it gets no further attempt.
    pub(super) fn marked_at(&self) -> Option<u64> {
        let marks = self.rows.iter().filter(|row| match row.step {
            Step::Cancel { answer } => matches!(answer, Some(CancelAnswer::Running) | None),
            _ => false,
        });
        marks.map(|row| row.from).min()
    }

    /// Whether a cancel found it running before `row`, or may have.
    pub(super) fn is_marked(&self, row: &Row) -> bool {
        self.marked_at().is_some_and(|at| at <= row.to)
    }

    /// When it may first expire; monotonic.
    pub(super) fn expires_at(&self) -> Option<u64> {
        let expiries = self.rows.iter().filter_map(|row| match row.step {
            Step::Submit { expiry, .. } => self.run.history.expiry(expiry).map(|by| (row, by)),
            _ => None,
        });
        let clock = &self.run.history.clock;
        let times = expiries.map(|(row, expiry)| match expiry {
            Asked::At(time) => {
                let early = self.run.allowances.most_ahead_ms() + duration_ms(CLOCK_GUARD);
                clock.monotonic_ns(time.as_millis() - early)
            }
            // After the due time, which is not before now.
            Asked::After(ms) => row.from.saturating_add(ms.saturating_mul(1_000_000)),
        });
        times.min()
    }

    /// Whether the store has it in `state` when all is over.
    pub(super) fn is_in(&self, state: TaskState) -> bool {
        self.stored.is_some_and(|stored| stored.state == state)
    }
}
