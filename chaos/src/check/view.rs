//! One task of a run, as the rules look at it.

use delayq_core::{TaskState, Timestamp};

use super::RECOVERY_MS;
use super::excuse::Excuses;
use crate::event::{CancelAnswer, End, ExtendAnswer, SettleAnswer};
use crate::history::{ClaimCall, History, NEVER, Row, Step, Stored, SubmitResult};

/// A run, and what its faults explain.
#[derive(Debug)]
pub(super) struct Run<'a> {
    pub(super) history: &'a History,
    pub(super) excuses: Excuses,
    /// How long due tasks may take to start after a fault, in milliseconds.
    pub(super) recovery_ms: u64,
}

impl<'a> Run<'a> {
    pub(super) fn new(history: &'a History) -> Self {
        let plan = history.plan.clone().unwrap_or_default();
        let recovery_ms = match plan.recovery_ms {
            0 => plan.lock_ms + RECOVERY_MS,
            planned => planned,
        };
        Self {
            history,
            excuses: Excuses::new(history, recovery_ms),
            recovery_ms,
        }
    }

    /// Whether it is certain that what `row` did was done and stayed.
    pub(super) fn is_sure(&self, row: &Row) -> bool {
        row.to != NEVER && !self.excuses.undone(row)
    }
}

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

/// A lock that a claim answered.
#[derive(Clone, Copy, Debug)]
pub(super) struct LockView<'a> {
    pub(super) row: &'a Row,
    pub(super) call: ClaimCall,
    pub(super) fence: u64,
    pub(super) attempt: u32,
    pub(super) due: Timestamp,
    /// The latest end of the lock that its holder was told.
    pub(super) until: Timestamp,
    /// When its holder last asked for the lock or its extension, and got it; monotonic.
    pub(super) alive: u64,
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

impl<'a> TaskView<'a> {
    pub(super) fn new(run: &'a Run<'a>, number: usize) -> Self {
        let name = run.history.tasks.get(number).map_or("", String::as_str);
        let rows = run.history.rows_of(number);
        Self {
            run,
            name,
            task_type: name
                .split_once('/')
                .map_or(name, |(task_type, _)| task_type),
            rows,
            stored: run.history.stored.get(number).copied().flatten(),
            locks: locks(run.history, rows),
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
                ends && answer != Some(SettleAnswer::LockLost)
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
                SubmitResult::Unknown => !self.repeats_a_request(row),
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

    /// Whether the submit in `row` is one that the store knows already, as long as it remembers ends.
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
                SubmitResult::Unknown => other.from < row.from,
                _ => false,
            },
            _ => false,
        })
    }

    /// Whether the task may have been sent or requeued between the two.
    pub(super) fn opened_between(&self, earlier: &Row, later: &Row) -> bool {
        self.opened_until(earlier, later.to)
    }

    /// Whether the task may have been sent or requeued after `earlier`, a step that only a task which is
    /// there can take, and before `until`. What put it there is not counted.
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

    /// Whether a fault may have undone something before `row`.
    pub(super) fn undone_before(&self, row: &Row) -> bool {
        let excuses = &self.run.excuses;
        let before = self.rows.iter().filter(|other| other.from <= row.to);
        before.into_iter().any(|other| excuses.undone(other))
    }

    /// How many claims of the type, under way before `row` was answered, have lost their answer. Each may
    /// have taken a lock that nobody knows of.
    pub(super) fn hidden_claims(&self, row: &Row) -> u32 {
        self.hidden_claims_until(row.to)
    }

    /// The same, under way before `until`.
    pub(super) fn hidden_claims_until(&self, until: u64) -> u32 {
        let lost = self.run.history.lost_claims.iter();
        let lost = lost.filter(|(task_type, from)| task_type == self.task_type && *from <= until);
        u32::try_from(lost.count()).unwrap_or(u32::MAX)
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
        let span = (lock.alive, next.row.to);
        let holder = self.run.history.process_of(lock.row);
        let holder = holder.map_or("", |process| process.name.as_str());
        match self.run.excuses.lost_lock(holder, self.name, span) {
            Some(fault) => Cause::Expired(Some(fault)),
            None if self.undone_before(next.row) => Cause::Rollback,
            None => Cause::Expired(None),
        }
    }

    /// Whether a cancel found it running, or may have: then it gets no further attempt.
    pub(super) fn is_marked(&self) -> bool {
        self.rows.iter().any(|row| match row.step {
            Step::Cancel { answer } => matches!(answer, Some(CancelAnswer::Running) | None),
            _ => false,
        })
    }

    /// Whether the store has it in `state` when all is over.
    pub(super) fn is_in(&self, state: TaskState) -> bool {
        self.stored.is_some_and(|stored| stored.state == state)
    }
}

fn locks<'a>(history: &'a History, rows: &'a [Row]) -> Vec<LockView<'a>> {
    let mut locks: Vec<_> = rows
        .iter()
        .filter_map(|row| {
            let Step::Claim {
                call,
                fence,
                attempt,
                due,
                until,
            } = row.step
            else {
                return None;
            };
            let (last, extended) = extended(rows, fence);
            Some(LockView {
                row,
                call: *history.claim(call)?,
                fence,
                attempt,
                due,
                until: until.max(extended),
                alive: last.max(row.from),
            })
        })
        .collect();
    locks.sort_by_key(|lock| lock.fence);
    locks
}

/// When the lock was last extended with success, and the latest end that was answered.
fn extended(rows: &[Row], fence: u64) -> (u64, Timestamp) {
    let mut last = (0, Timestamp::ZERO);
    for row in rows {
        if let Step::Extend {
            fence: extended,
            answer: Some(ExtendAnswer::Extended(until) | ExtendAnswer::CancelRequested(until)),
        } = row.step
            && extended == fence
        {
            last = (last.0.max(row.from), last.1.max(until));
        }
    }
    last
}
