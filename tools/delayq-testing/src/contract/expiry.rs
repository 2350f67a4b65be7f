//! Expiry: a task that is no longer worth running is ended instead of started.

use delayq_core::operate::DeadFilter;
use delayq_core::store::{AttemptEnd, CLOCK_GUARD, ClaimEnd, EndCause, SettleOutcome};
use delayq_core::{TaskState, When, hours, millis};

use super::repeat::only_its_repeat_is_settled;
use super::rig::{LONG, Rig, SHORT, dead, id, job, retry, usual_type};

/// Claims, and expects only that `ids` end by expiry.
async fn claim_expires(rig: &Rig, ids: &[&str]) {
    let claimed = rig.claim().await;
    let ended = |id| ClaimEnd::new(super::rig::id(id), EndCause::Expired);
    assert_eq!(claimed.tasks, []);
    assert_eq!(
        claimed.ended,
        ids.iter().copied().map(ended).collect::<Vec<_>>()
    );
}

pub async fn a_task_past_its_absolute_expiry_ends_as_expired(rig: &Rig) {
    let expires_at = rig.now().await.plus(SHORT);
    rig.accept(job("1").expires_at(expires_at)).await;
    assert_eq!(rig.info("1").await.expires_at, Some(expires_at));
    rig.reach(expires_at).await;
    claim_expires(rig, &["1"]).await;
    let info = rig.info("1").await;
    assert_eq!(
        (info.state, info.attempt, info.message),
        (TaskState::Expired, 0, None)
    );
    assert!(info.at >= expires_at);
    rig.claims_nothing().await;
}

pub async fn a_task_before_its_expiry_runs(rig: &Rig) {
    rig.accept(job("1").expires_after(LONG)).await;
    rig.accept(job("2").expires_at(rig.now().await.plus(LONG)))
        .await;
    assert_eq!(rig.claim().await.tasks.len(), 2);
}

pub async fn a_task_expires_at_its_very_millisecond(rig: &Rig) {
    let due_at = rig.accept(job("1").expires_after(SHORT)).await;
    let expires_at = due_at.plus(SHORT);
    rig.reach(expires_at).await;
    // The guard limits the claim's present time to that millisecond.
    let mut request = rig.request().await;
    request.caller_now = expires_at.minus(CLOCK_GUARD);
    let claimed = rig.claim_as(&request).await;
    assert_eq!(claimed.now(), expires_at);
    assert_eq!((claimed.tasks.len(), claimed.ended.len()), (0, 1));
}

pub async fn an_expiry_after_due_counts_from_the_due_time(rig: &Rig) {
    let due_at = rig
        .accept(job("1").after(SHORT).expires_after(millis(1)))
        .await;
    let expires_at = due_at.plus(millis(1));
    assert_eq!(rig.info("1").await.expires_at, Some(expires_at));
    rig.reach(expires_at).await;
    claim_expires(rig, &["1"]).await;
}

pub async fn an_expiry_after_due_moves_with_a_reschedule(rig: &Rig) {
    rig.accept(job("1").after(LONG).expires_after(SHORT)).await;
    let _ = rig.reschedule("1", When::After(hours(3))).await;
    let info = rig.info("1").await;
    assert_eq!(info.expires_at, Some(info.at.plus(SHORT)));
    rig.run_now("1").await;
    rig.pass(SHORT).await;
    claim_expires(rig, &["1"]).await;
}

pub async fn an_absolute_expiry_stays_with_a_reschedule(rig: &Rig) {
    let expires_at = rig.now().await.plus(SHORT);
    rig.accept(job("1").expires_at(expires_at)).await;
    let _ = rig.reschedule("1", When::After(SHORT + SHORT)).await;
    assert_eq!(rig.info("1").await.expires_at, Some(expires_at));
    rig.pass(SHORT + SHORT).await;
    claim_expires(rig, &["1"]).await;
}

pub async fn an_expiry_after_due_moves_with_a_requeue(rig: &Rig) {
    rig.accept(job("1").expires_after(hours(2))).await;
    let task = rig.claim_one().await;
    rig.settle(&task.lock, dead("gone")).await;
    rig.store()
        .requeue_dead(&usual_type(), &DeadFilter::all(), LONG)
        .await
        .unwrap();
    let info = rig.info("1").await;
    assert_eq!(info.expires_at, Some(info.at.plus(hours(2))));
}

pub async fn an_expiry_does_not_move_with_a_retry(rig: &Rig) {
    let due_at = rig.accept(job("1").expires_after(hours(2))).await;
    let task = rig.claim_one().await;
    rig.settle(&task.lock, retry(hours(1))).await;
    assert_eq!(rig.info("1").await.expires_at, Some(due_at.plus(hours(2))));
}

pub async fn a_retry_past_the_expiry_does_not_start(rig: &Rig) {
    let expires_at = rig.now().await.plus(SHORT);
    rig.accept(job("1").expires_at(expires_at)).await;
    let Some(task) = rig.claim().await.tasks.pop() else {
        // On a slow machine it may have expired before the first attempt.
        assert_eq!(rig.state("1").await, Some(TaskState::Expired));
        return;
    };
    rig.settle(&task.lock, retry(SHORT)).await;
    rig.reach(rig.info("1").await.at).await;
    claim_expires(rig, &["1"]).await;
    assert_eq!(rig.info("1").await.attempt, 1);
}

pub async fn a_running_task_past_its_expiry_may_finish(rig: &Rig) {
    let expires_at = rig.now().await.plus(SHORT);
    rig.accept(job("1").expires_at(expires_at)).await;
    let Some(task) = rig.claim().await.tasks.pop() else {
        assert_eq!(rig.state("1").await, Some(TaskState::Expired));
        return;
    };
    rig.reach(expires_at).await;
    rig.claims_nothing().await;
    assert_eq!(
        rig.settle(&task.lock, AttemptEnd::Done).await,
        SettleOutcome::Settled
    );
}

pub async fn a_task_whose_lock_and_expiry_have_passed_is_expired(rig: &Rig) {
    let expires_at = rig.now().await.plus(SHORT);
    rig.accept(job("1").expires_at(expires_at)).await;
    let Some(task) = rig.claim().await.tasks.pop() else {
        assert_eq!(rig.state("1").await, Some(TaskState::Expired));
        return;
    };
    rig.expire(&task.lock).await;
    rig.reach(expires_at).await;
    claim_expires(rig, &["1"]).await;
    assert_eq!(
        rig.settle(&task.lock, AttemptEnd::Done).await,
        SettleOutcome::LockLost
    );
}

pub async fn a_settlement_repeated_after_the_task_expired_is_settled(rig: &Rig) {
    let expires_at = rig.now().await.plus(SHORT);
    rig.accept(job("1").expires_at(expires_at)).await;
    let Some(task) = rig.claim().await.tasks.pop() else {
        assert_eq!(rig.state("1").await, Some(TaskState::Expired));
        return;
    };
    rig.settled(&task.lock, retry(SHORT)).await;
    rig.reach(rig.info("1").await.at).await;
    claim_expires(rig, &["1"]).await;
    only_its_repeat_is_settled(rig, &task.lock, &retry(SHORT)).await;
    assert_eq!(rig.state("1").await, Some(TaskState::Expired));
}

pub async fn expired_tasks_do_not_hold_up_those_behind_them(rig: &Rig) {
    let expires_at = rig.now().await.plus(millis(1));
    for n in 0..3 {
        rig.accept(job(&n.to_string()).expires_at(expires_at)).await;
    }
    rig.pass(millis(1)).await;
    rig.accept(job("fresh")).await;
    let mut request = rig.request().await;
    request.limit = 2;
    let first = rig.claim_as(&request).await;
    assert_eq!(first.tasks.len() + first.ended.len(), 2);
    assert!(first.is_more_due());
    let second = rig.claim_as(&request).await;
    assert_eq!(first.ended.len() + second.ended.len(), 3);
    assert_eq!(first.tasks.len() + second.tasks.len(), 1);
    if first.parts.len() == 1 {
        assert_eq!(second.ended[0].id, id("2"));
        assert_eq!(second.ids(), ["fresh"]);
    }
}
