//! Cancelling: final for a scheduled task, a request to a running one.

use std::time::Duration;

use delayq_core::TaskState::{Cancelled, Dead, Done, Expired};
use delayq_core::store::{
    AttemptEnd, CancelOutcome, ClaimEnd, EndCause, ExtendOutcome, SettleOutcome, SubmitOutcome,
};
use delayq_core::{TaskState, TaskType};

use super::rig::{LONG, Rig, dead, id, job, release, retry};

pub async fn a_cancelled_task_never_starts(rig: &Rig) {
    rig.accept(job("1")).await;
    assert_eq!(rig.cancel("1").await, CancelOutcome::Cancelled);
    rig.claims_nothing().await;
    let info = rig.info("1").await;
    assert_eq!((info.state, info.attempt), (TaskState::Cancelled, 0));
    assert_eq!(info.message, None);
    assert_eq!(rig.claim().await.next_at(), None);
}

pub async fn a_task_waiting_for_its_retry_can_be_cancelled(rig: &Rig) {
    let task = rig.run("1").await;
    rig.settle(&task.lock, retry(Duration::ZERO)).await;
    assert_eq!(rig.cancel("1").await, CancelOutcome::Cancelled);
    rig.claims_nothing().await;
    assert_eq!(rig.info("1").await.attempt, 1);
}

pub async fn cancelling_says_why_not(rig: &Rig) {
    assert_eq!(rig.cancel("unknown").await, CancelOutcome::NotFound);
    for state in [Done, Dead, Cancelled, Expired] {
        rig.bring(state.as_str(), state).await;
        let before = rig.find(state.as_str()).await;
        assert_eq!(
            rig.cancel(state.as_str()).await,
            CancelOutcome::Finished(state)
        );
        assert_eq!(rig.find(state.as_str()).await, before);
    }
    let other = TaskType::new("gift.refund").unwrap();
    let outcome = rig.store().cancel(&other, &id("done")).await;
    assert_eq!(outcome, Ok(CancelOutcome::NotFound));
}

pub async fn a_second_cancel_finds_the_task_cancelled(rig: &Rig) {
    rig.accept(job("1").after(LONG)).await;
    assert_eq!(rig.cancel("1").await, CancelOutcome::Cancelled);
    let finished = CancelOutcome::Finished(TaskState::Cancelled);
    assert_eq!(rig.cancel("1").await, finished);
}

pub async fn without_a_retention_a_cancelled_task_is_gone(rig: &Rig) {
    let rig = rig.with_retention(Duration::ZERO).await;
    rig.accept(job("1").after(LONG)).await;
    assert_eq!(rig.cancel("1").await, CancelOutcome::Cancelled);
    assert_eq!(rig.cancel("1").await, CancelOutcome::NotFound);
    assert_eq!(rig.find("1").await, None);
    rig.finish().await;
}

pub async fn the_holder_of_a_running_task_hears_of_a_cancel(rig: &Rig) {
    let task = rig.run("1").await;
    assert!(matches!(
        rig.extend(&task.lock, LONG).await,
        ExtendOutcome::Extended(_)
    ));
    assert!(!rig.info("1").await.cancel_requested);
    assert_eq!(rig.cancel("1").await, CancelOutcome::Running);
    assert_eq!(rig.cancel("1").await, CancelOutcome::Running);
    let info = rig.info("1").await;
    assert_eq!(
        (info.state, info.cancel_requested),
        (TaskState::Running, true)
    );
    for _ in 0..2 {
        let outcome = rig.extend(&task.lock, LONG).await;
        let ExtendOutcome::CancelRequested(until) = outcome else {
            panic!("{outcome:?}");
        };
        assert_eq!(rig.info("1").await.at, until);
    }
}

/// The state after a cancel of a running task whose attempt then ends with `end`.
async fn state_after(rig: &Rig, end: AttemptEnd) -> TaskState {
    let task = rig.run("1").await;
    let _ = rig.cancel("1").await;
    assert_eq!(rig.settle(&task.lock, end).await, SettleOutcome::Settled);
    rig.claims_nothing().await;
    let state = rig.state("1").await.unwrap();
    rig.free("1").await;
    state
}

pub async fn after_a_cancel_no_further_attempt_follows(rig: &Rig) {
    let at_once = Duration::ZERO;
    assert_eq!(state_after(rig, retry(at_once)).await, TaskState::Cancelled);
    assert_eq!(
        state_after(rig, release(at_once)).await,
        TaskState::Cancelled
    );
    assert_eq!(state_after(rig, dead("gone")).await, TaskState::Dead);
    assert_eq!(
        state_after(rig, AttemptEnd::Expired).await,
        TaskState::Expired
    );
}

pub async fn a_task_that_finishes_in_spite_of_a_cancel_is_done(rig: &Rig) {
    assert_eq!(state_after(rig, AttemptEnd::Done).await, TaskState::Done);
}

pub async fn a_cancelled_task_whose_lock_expires_is_cancelled(rig: &Rig) {
    let task = rig.run("1").await;
    let _ = rig.cancel("1").await;
    rig.expire(&task.lock).await;
    let claimed = rig.claim().await;
    let (id, cause) = (id("1"), EndCause::Cancelled);
    assert_eq!(
        (claimed.tasks.len(), &claimed.ended[..]),
        (0, &[ClaimEnd::new(id, cause)][..])
    );
    let info = rig.info("1").await;
    assert_eq!((info.state, info.attempt), (TaskState::Cancelled, 1));
    assert_eq!(
        rig.settle(&task.lock, AttemptEnd::Done).await,
        SettleOutcome::LockLost
    );
    assert_eq!(rig.state("1").await, Some(TaskState::Cancelled));
}

pub async fn a_cancel_is_stronger_than_poison(rig: &Rig) {
    let task = rig.run("1").await;
    let _ = rig.cancel("1").await;
    rig.expire(&task.lock).await;
    let mut request = rig.request().await;
    request.max_lock_expiries = 1;
    assert_eq!(
        rig.claim_as(&request).await.ended[0].cause,
        EndCause::Cancelled
    );
    assert_eq!(rig.state("1").await, Some(TaskState::Cancelled));
}

pub async fn a_second_cancel_of_a_running_task_changes_nothing(rig: &Rig) {
    let task = rig.run("1").await;
    for _ in 0..2 {
        assert_eq!(rig.cancel("1").await, CancelOutcome::Running);
    }
    rig.settled(&task.lock, AttemptEnd::Done).await;
    let state = TaskState::Done;
    let again = rig.submit(job("1")).await;
    assert_eq!(again, SubmitOutcome::AlreadyExists { state });
}

pub async fn a_cancel_request_does_not_outlive_its_task(rig: &Rig) {
    let task = rig.run("1").await;
    let _ = rig.cancel("1").await;
    rig.settle(&task.lock, dead("gone")).await;
    assert!(!rig.info("1").await.cancel_requested);
    let filter = delayq_core::operate::DeadFilter::all();
    let task_type = super::rig::usual_type();
    rig.store()
        .requeue_dead(&task_type, &filter, Duration::ZERO)
        .await
        .unwrap();
    let task = rig.claim_one().await;
    assert!(matches!(
        rig.extend(&task.lock, LONG).await,
        ExtendOutcome::Extended(_)
    ));
    rig.settle(&task.lock, retry(LONG)).await;
    assert_eq!(rig.state("1").await, Some(TaskState::Scheduled));
    rig.run_now("1").await;
    rig.claim_one().await;
}
