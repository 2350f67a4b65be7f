//! The store's words in the words of events.

use delayq_core::store::{
    AttemptEnd, CancelOutcome, ChangeOutcome, Claimed, EndCause, ExtendOutcome, SettleOutcome,
    Settlement, SubmitOutcome,
};
use delayq_core::task::ClaimedTask;
use delayq_core::time::duration_ms;
use delayq_core::{Expiry, Lock, NewTask, OnConflict, Result, TaskId, TaskState, When};

use super::task_name;
use crate::event::{
    Asked, CancelAnswer, ChangeAnswer, ClaimedLock, ConflictRule, End, EndedByClaim, ExtendAnswer,
    HeldLock, SettleAnswer, SettledLock, SubmitAnswer, Submitted, What,
};
use crate::record::{digest, digest_of_headers};

pub(super) fn submitted(task: &NewTask) -> Submitted {
    Submitted {
        task: task_name(&task.task_type, &task.id),
        digest: digest(&task.message),
        headers: digest_of_headers(&task.headers),
        when: asked(task.when),
        expiry: task.expiry.map(|expiry| match expiry {
            Expiry::At(time) => Asked::At(time),
            Expiry::AfterDue(span) => Asked::After(ms(span)),
        }),
        on_conflict: match task.on_conflict {
            OnConflict::Reject => ConflictRule::Reject,
            OnConflict::Keep => ConflictRule::Keep,
            OnConflict::Replace | OnConflict::Debounce { .. } => ConflictRule::Replace,
        },
    }
}

fn ms(span: std::time::Duration) -> u64 {
    u64::try_from(duration_ms(span)).unwrap_or(0)
}

pub(super) fn asked(when: When) -> Asked {
    match when {
        When::After(delay) => Asked::After(ms(delay)),
        When::At(time) => Asked::At(time),
    }
}

pub(super) fn submit_answer(result: &Result<SubmitOutcome>) -> SubmitAnswer {
    match result {
        Ok(SubmitOutcome::Accepted { due_at, replaced }) => SubmitAnswer::Accepted {
            due: *due_at,
            replaced: *replaced,
        },
        Ok(SubmitOutcome::AlreadyExists { state }) => SubmitAnswer::Exists { state: *state },
        Ok(SubmitOutcome::Conflict { state }) => SubmitAnswer::Conflict { state: *state },
        Ok(outcome) => not_known(outcome),
        Err(error) => SubmitAnswer::Refused {
            certain: !error.is_indeterminate(),
            error: error.to_string(),
        },
    }
}

pub(super) fn claimed(call: u64, task_type: &str, claimed: &Claimed) -> What {
    let ended = claimed.ended.iter().map(|end| EndedByClaim {
        id: end.id.to_string(),
        state: match end.cause {
            EndCause::Expired => TaskState::Expired,
            EndCause::Cancelled => TaskState::Cancelled,
            _ => TaskState::Dead,
        },
        damaged: end.cause == EndCause::Corrupt,
    });
    What::ClaimAnswered {
        call,
        task_type: task_type.to_owned(),
        store_now: claimed.store_now,
        now: claimed.now,
        tasks: claimed.tasks.iter().map(claimed_lock).collect(),
        ended: ended.collect(),
    }
}

fn claimed_lock(task: &ClaimedTask) -> ClaimedLock {
    ClaimedLock {
        id: task.lock.id.to_string(),
        fence: task.lock.fence,
        attempt: task.attempt,
        due: task.due_at,
        lock_until: task.lock_until,
    }
}

pub(super) fn settled_lock(settlement: &Settlement) -> SettledLock {
    SettledLock {
        id: settlement.lock.id.to_string(),
        fence: settlement.lock.fence,
        end: match &settlement.end {
            AttemptEnd::Done => End::Done,
            AttemptEnd::Retry { after, .. } => End::Retry { after: ms(*after) },
            AttemptEnd::Release { after, .. } => End::Release { after: ms(*after) },
            AttemptEnd::Dead { .. } => End::Dead,
            AttemptEnd::Expired => End::Expired,
            end => not_known(end),
        },
    }
}

pub(super) fn settle_answer(outcome: SettleOutcome) -> SettleAnswer {
    match outcome {
        SettleOutcome::Settled => SettleAnswer::Settled,
        SettleOutcome::LockLost => SettleAnswer::LockLost,
        SettleOutcome::Busy => SettleAnswer::Busy,
        _ => not_known(outcome),
    }
}

pub(super) fn held_lock(lock: &Lock) -> HeldLock {
    HeldLock {
        id: lock.id.to_string(),
        fence: lock.fence,
    }
}

pub(super) fn extend_answer(outcome: &ExtendOutcome) -> ExtendAnswer {
    match outcome {
        ExtendOutcome::Extended(until) => ExtendAnswer::Extended(*until),
        ExtendOutcome::CancelRequested(until) => ExtendAnswer::CancelRequested(*until),
        ExtendOutcome::LockLost => ExtendAnswer::LockLost,
        _ => not_known(outcome),
    }
}

pub(super) fn cancel_answer(outcome: CancelOutcome) -> CancelAnswer {
    match outcome {
        CancelOutcome::Cancelled => CancelAnswer::Cancelled,
        CancelOutcome::Running => CancelAnswer::Running,
        CancelOutcome::Finished(state) => CancelAnswer::Finished(state),
        CancelOutcome::NotFound => CancelAnswer::NotFound,
        _ => not_known(outcome),
    }
}

pub(super) fn change_answer(outcome: ChangeOutcome) -> ChangeAnswer {
    match outcome {
        ChangeOutcome::Changed { due_at } => ChangeAnswer::Changed { due: due_at },
        ChangeOutcome::Running => ChangeAnswer::Running,
        ChangeOutcome::Finished(state) => ChangeAnswer::Finished(state),
        ChangeOutcome::NotFound => ChangeAnswer::NotFound,
        _ => not_known(outcome),
    }
}

pub(super) fn ids(ids: &[TaskId]) -> Vec<String> {
    ids.iter().map(ToString::to_string).collect()
}

/// A run that goes on with a gap in its record proves nothing.
fn not_known(what: impl std::fmt::Debug) -> ! {
    panic!("the record has no word for {what:?}")
}
