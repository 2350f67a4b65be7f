//! Each decision by a table.

mod any_life;
mod settling;

use std::time::Duration;

use super::*;
use crate::job::{NewTask, OnConflict};
use crate::name::{TaskId, TaskType};
use crate::store::{
    AttemptEnd, ClaimRequest, EndCause, EndKind, ExtendOutcome, SettleOutcome, SubmitOutcome,
};

const STATES: [TaskState; 6] = [
    TaskState::Scheduled,
    TaskState::Running,
    TaskState::Dead,
    TaskState::Done,
    TaskState::Cancelled,
    TaskState::Expired,
];

fn at(ms: i64) -> Timestamp {
    Timestamp::from_millis(ms)
}

/// A task that was accepted at 10, due at once.
fn scheduled() -> Bookkeeping {
    Bookkeeping::accepted(When::At(at(0)), at(10).into())
}

/// The same, running under lock 7 until 50.
fn running() -> Bookkeeping {
    scheduled().locked(7, at(50))
}

fn retry(after_ms: u64) -> AttemptEnd {
    AttemptEnd::Retry {
        after: Duration::from_millis(after_ms),
        error: "no".to_owned(),
        succeeded: vec!["mail".to_owned()],
    }
}

fn release() -> AttemptEnd {
    AttemptEnd::Release {
        after: Duration::from_millis(5),
        succeeded: Vec::new(),
    }
}

fn dead() -> AttemptEnd {
    AttemptEnd::Dead {
        error: "x".repeat(2_000),
        succeeded: Vec::new(),
    }
}

/// Lock 7, settled last by an end of this kind.
fn settled_by(kind: EndKind) -> Settled {
    Settled {
        fence: 7,
        by: Some(kind),
    }
}

fn settle_at_20<'a>(task: &Bookkeeping, fence: u64, end: &'a AttemptEnd) -> Settling<'a> {
    settle(task, fence, end, at(20).into())
}

#[test]
fn a_due_time_is_never_in_the_past_and_a_delay_is_never_cut_short() {
    let reading = Reading {
        now: at(10),
        sub_ms: Duration::from_micros(1),
    };
    let after = |ms| When::After(Duration::from_millis(ms));
    assert_eq!(due_at(after(0), reading), at(10));
    assert_eq!(due_at(after(5), reading), at(16));
    assert_eq!(due_at(When::At(at(3)), reading), at(10));
    assert_eq!(due_at(When::At(at(30)), reading), at(30));
}

#[test]
fn a_free_id_is_accepted_unless_the_type_is_full() {
    let bound = |pending, limit| Bound { pending, limit };
    let accepted = Submission::Accepted { replaced: false };
    for on_conflict in [OnConflict::Reject, OnConflict::Keep, OnConflict::Replace] {
        let new = new(on_conflict, When::At(at(15)));
        let submitted = |bound| submit(None, &new, bound);
        assert_eq!(submitted(bound(9, None)), accepted);
        assert_eq!(submitted(bound(8, Some(9))), accepted);
        assert_eq!(submitted(bound(9, Some(9))), Submission::Full { limit: 9 });
    }
}

#[test]
fn a_taken_id_is_decided_by_the_request_and_the_state() {
    let free = Bound {
        pending: 0,
        limit: None,
    };
    for state in STATES {
        let exists = Submission::Answered(SubmitOutcome::AlreadyExists { state });
        let conflict = Submission::Answered(SubmitOutcome::Conflict { state });
        let overwrites = Submission::Accepted { replaced: false };
        let replaces = Submission::Accepted { replaced: true };
        let is_running = state == TaskState::Running;
        let ended = state.is_ended();
        // By conflict rule: the answer to the same request, and to another one.
        let expected = [
            (
                OnConflict::Reject,
                exists,
                if ended { overwrites } else { conflict },
            ),
            (
                OnConflict::Keep,
                exists,
                if ended { overwrites } else { exists },
            ),
            (
                OnConflict::Replace,
                if ended { overwrites } else { exists },
                match (ended, is_running) {
                    (true, _) => overwrites,
                    (_, true) => conflict,
                    _ => replaces,
                },
            ),
        ];
        for (on_conflict, same, other) in expected {
            let submitted = |is_same_request| {
                let existing = Existing {
                    state,
                    is_same_request,
                };
                submit(Some(existing), &new(on_conflict, When::At(at(15))), free)
            };
            assert_eq!(submitted(true), same, "{state} {on_conflict:?}");
            assert_eq!(submitted(false), other, "{state} {on_conflict:?}");
        }
    }
}

fn new(on_conflict: OnConflict, when: When) -> NewTask {
    let task_type = TaskType::new("a").unwrap();
    let mut new = NewTask::new(task_type, TaskId::new("1").unwrap(), Vec::new());
    (new.on_conflict, new.when) = (on_conflict, when);
    new
}

#[test]
fn a_delay_asked_for_again_with_replace_counts_anew_unless_the_task_runs() {
    let again = |state| {
        let existing = Existing {
            state,
            is_same_request: true,
        };
        let after = When::After(Duration::from_millis(5));
        let new = new(OnConflict::Replace, after);
        submit(
            Some(existing),
            &new,
            Bound {
                pending: 0,
                limit: None,
            },
        )
    };
    let state = TaskState::Running;
    let exists = Submission::Answered(SubmitOutcome::AlreadyExists { state });
    assert_eq!(again(state), exists);
    for state in [TaskState::Scheduled, TaskState::Dead] {
        assert_eq!(again(state), Submission::Accepted { replaced: true });
    }
}

#[test]
fn a_replaced_task_needs_no_room_and_an_overwritten_one_does() {
    let full = Bound {
        pending: 1,
        limit: Some(1),
    };
    for (state, expected) in [
        (TaskState::Dead, Submission::Accepted { replaced: true }),
        (TaskState::Done, Submission::Full { limit: 1 }),
    ] {
        let existing = Existing {
            state,
            is_same_request: false,
        };
        let new = new(OnConflict::Replace, When::At(at(15)));
        let submitted = submit(Some(existing), &new, full);
        assert_eq!(submitted, expected);
    }
}

#[test]
fn a_request_is_repeated_by_the_same_delay_or_the_same_time() {
    let after = |ms| When::After(Duration::from_millis(ms));
    let asked = |when| Asked::new(&Bookkeeping::accepted(when, at(10).into()), at(10));
    assert!(asked(after(5)).is_repeated_by(after(5)));
    assert!(!asked(after(5)).is_repeated_by(after(6)));
    assert!(!asked(after(5)).is_repeated_by(When::At(at(15))));
    assert!(asked(When::At(at(15))).is_repeated_by(When::At(at(15))));
    assert!(!asked(When::At(at(15))).is_repeated_by(after(5)));
    // Both mean now.
    assert!(asked(When::At(at(3))).is_repeated_by(When::At(at(4))));
    let moved = Bookkeeping::accepted(after(5), at(10).into()).rescheduled(at(15));
    assert!(!Asked::new(&moved, at(10)).is_repeated_by(after(5)));
}

#[test]
fn cancels_and_changes_are_answered_by_the_state() {
    assert_eq!(cancel(None), CancelOutcome::NotFound);
    assert_eq!(change(None, at(5)), ChangeOutcome::NotFound);
    for state in STATES {
        let (cancelled, changed) = match state {
            TaskState::Scheduled => (
                CancelOutcome::Cancelled,
                ChangeOutcome::Changed { due_at: at(5) },
            ),
            TaskState::Running => (CancelOutcome::Running, ChangeOutcome::Running),
            _ => (
                CancelOutcome::Finished(state),
                ChangeOutcome::Finished(state),
            ),
        };
        assert_eq!(cancel(Some(state)), cancelled);
        assert_eq!(change(Some(state), at(5)), changed);
    }
}

#[test]
fn an_expired_lock_repeats_cancels_or_poisons() {
    let due = Bookkeeping {
        lock_expiries: 1,
        ..scheduled()
    };
    let allowed = |max| ClaimRequest::new(1, Duration::ZERO, at(60)).max_lock_expiries(max);
    assert_eq!(lock_expired(&running(), None, &allowed(3), at(60)), Ok(due));
    let twice = due.locked(8, at(50));
    let poison = |max| match lock_expired(&twice, None, &allowed(max), at(60)) {
        Err(Claiming::Dead(task, EndCause::Poison, error)) => {
            (task.state, task.at, task.lock_expiries, error)
        }
        other => panic!("{other:?}"),
    };
    let error = "poison: its lock expired 2 times; its process may have crashed".to_owned();
    assert_eq!(poison(2), (TaskState::Dead, at(60), 2, error.clone()));
    // 0 is read as 1.
    assert_eq!(poison(0), (TaskState::Dead, at(60), 2, error));
    let cancelled = lock_expired(&twice.with_cancel_request(), None, &allowed(2), at(60));
    let ended = Ended {
        state: TaskState::Cancelled,
        at: at(60),
        attempt: 2,
        settled: Settled::default(),
    };
    let end = Claiming::Ended(ended, EndCause::Cancelled);
    assert_eq!(cancelled, Err(end));
}

#[test]
fn a_requeued_task_counts_anew_and_keeps_what_was_settled() {
    let Settling::Changed { task: dead, .. } = settle_at_20(&running(), 7, &dead()) else {
        panic!("it is dead");
    };
    let requeued = dead.requeued(at(30));
    let expected = Bookkeeping {
        requeues: 1,
        settled: settled_by(EndKind::Dead),
        ..scheduled().rescheduled(at(30))
    };
    assert_eq!(requeued, expected);
    assert_eq!(requeued.attempt(), 0);
}

#[test]
fn a_quota_is_the_least_of_the_request_the_batch_the_rate_and_the_slots() {
    use crate::fleet::{FleetLimits, Rate};
    use crate::store::{ClaimRequest, MAX_BATCH};
    let request = |limit| ClaimRequest::new(limit, Duration::from_secs(1), at(10));
    let quota = |request: &ClaimRequest, running| Quota::new(request, 0, at(10).into(), running);
    assert_eq!(quota(&request(1_000), 0).limit, MAX_BATCH);
    assert_eq!(quota(&request(9), 0).due(4), 5);
    let slots = request(9).fleet(FleetLimits {
        concurrency: Some(3),
        rate: None,
    });
    assert_eq!(quota(&slots, 1).due(4), 2);
    assert_eq!(quota(&slots, 5).due(4), 0);
    assert!(quota(&slots, 3).is_full(3) && !quota(&slots, 3).is_full(2));
    let rate = request(9).fleet(FleetLimits {
        concurrency: None,
        rate: Some(Rate::per_hour(1)),
    });
    let mut quota = quota(&rate, 0);
    assert_eq!((quota.limit, quota.again_at()), (1, None));
    assert!(quota.take(1).is_some_and(|tat| tat > 0));
    assert!(quota.again_at().is_some());
}
