//! Settle and extend: the rights of a lock's holder.

use crate::job::When;
use crate::state::TaskState;
use crate::store::{AttemptEnd, EndKind, ExtendOutcome, SettleOutcome, cut_error};
use crate::time::{Reading, Timestamp};

use super::{Bookkeeping, Ended, Settled, due_at};

/// The result of a settlement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Settling<'a> {
    /// The lock does not hold the task: this is the answer, and nothing changes.
    NotHeld(SettleOutcome),
    /// The task has ended.
    Ended(Ended),
    /// The task is scheduled again, or dead, with the [note] of the settlement if it has one.
    ///
    /// [note]: crate::store::Settlement::kept_note
    Changed {
        /// Its new bookkeeping.
        task: Bookkeeping,
        /// Its new last error; `None`: unchanged.
        error: Option<&'a str>,
        /// The workers that have succeeded so far.
        succeeded: &'a [String],
    },
}

/// The answer to a settlement of a task that has ended.
#[must_use]
pub fn settle_ended(task: &Ended, fence: u64, end: EndKind) -> SettleOutcome {
    task.settled.answer(fence, end)
}

/// The result when the lock with `fence` settles `task`. The waits of retry and release count from
/// `reading`.
#[must_use]
pub fn settle<'a>(
    task: &Bookkeeping,
    fence: u64,
    end: &'a AttemptEnd,
    reading: Reading,
) -> Settling<'a> {
    if !task.is_held_by(fence) {
        return Settling::NotHeld(task.settled.answer(fence, end.kind()));
    }
    let now = reading.now;
    let settled = Bookkeeping {
        settled: Settled {
            fence,
            by: Some(end.kind()),
        },
        ..*task
    };
    let ended = |state| Settling::Ended(settled.ended(state, now));
    let (next, error, succeeded) = match end {
        AttemptEnd::Done => return ended(TaskState::Done),
        AttemptEnd::Expired => return ended(TaskState::Expired),
        AttemptEnd::Retry { .. } | AttemptEnd::Release { .. } if task.cancel_requested => {
            return ended(TaskState::Cancelled);
        }
        AttemptEnd::Retry {
            after,
            error,
            succeeded,
        } => {
            let next = settled
                .failed()
                .put_back(due_at(When::After(*after), reading));
            (next, Some(error), succeeded)
        }
        AttemptEnd::Release { after, succeeded } => {
            let next = settled
                .released()
                .put_back(due_at(When::After(*after), reading));
            (next, None, succeeded)
        }
        AttemptEnd::Dead { error, succeeded } => {
            (settled.failed().died(now), Some(error), succeeded)
        }
    };
    Settling::Changed {
        task: next,
        error: error.map(|error| cut_error(error)),
        succeeded,
    }
}

/// The answer to an extension until `until`. Unless it is `LockLost`, the lock expires at `until`.
#[must_use]
pub fn extend(task: &Bookkeeping, fence: u64, until: Timestamp) -> ExtendOutcome {
    if !task.is_held_by(fence) {
        return ExtendOutcome::LockLost;
    }
    if task.cancel_requested {
        return ExtendOutcome::CancelRequested(until);
    }
    ExtendOutcome::Extended(until)
}
