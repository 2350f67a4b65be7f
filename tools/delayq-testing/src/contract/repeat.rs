//! Settlements with locks that were already settled: a repeat is recognised, another end is
//! refused.

use std::time::Duration;

use delayq_core::operate::DeadFilter;
use delayq_core::store::{AttemptEnd, SettleOutcome};
use delayq_core::{Lock, TaskState};

use super::rig::{LONG, Rig, dead, every_end, id, release, retry, usual_type};

pub async fn repeating_a_settlement_is_settled_and_changes_nothing(rig: &Rig) {
    for end in every_end() {
        let task = rig.run("1").await;
        assert_eq!(
            rig.settle(&task.lock, end.clone()).await,
            SettleOutcome::Settled
        );
        let before = rig.find("1").await;
        assert_eq!(
            rig.settle(&task.lock, end.clone()).await,
            SettleOutcome::Settled,
            "{end:?}"
        );
        assert_eq!(rig.find("1").await, before, "{end:?}");
        rig.free("1").await;
    }
}

pub async fn repeating_a_settlement_of_a_cancelled_attempt_is_settled(rig: &Rig) {
    let task = rig.run("1").await;
    let _ = rig.cancel("1").await;
    assert_eq!(
        rig.settle(&task.lock, retry(LONG)).await,
        SettleOutcome::Settled
    );
    assert_eq!(
        rig.settle(&task.lock, retry(LONG)).await,
        SettleOutcome::Settled
    );
    assert_eq!(rig.state("1").await, Some(TaskState::Cancelled));
}

pub async fn repeating_a_retry_after_a_cancel_is_settled(rig: &Rig) {
    let first = rig.run("1").await;
    rig.settled(&first.lock, retry(Duration::ZERO)).await;
    let second = rig.claim_one().await;
    rig.settled(&second.lock, retry(LONG)).await;
    let _ = rig.cancel("1").await;
    rig.settled(&second.lock, retry(LONG)).await;
    assert_eq!(
        rig.settle(&first.lock, retry(LONG)).await,
        SettleOutcome::LockLost
    );
    assert_eq!(rig.state("1").await, Some(TaskState::Cancelled));
}

pub async fn repeating_a_retry_while_the_next_attempt_runs_changes_nothing(rig: &Rig) {
    let first = rig.run("1").await;
    rig.settle(&first.lock, retry(Duration::ZERO)).await;
    let second = rig.claim_one().await;
    let before = rig.find("1").await;
    assert_eq!(
        rig.settle(&first.lock, retry(Duration::ZERO)).await,
        SettleOutcome::Settled
    );
    assert_eq!(rig.find("1").await, before);
    assert_eq!(
        rig.settle(&second.lock, AttemptEnd::Done).await,
        SettleOutcome::Settled
    );
}

/// Tries every end again with a lock that `settled` has settled: its repeat is settled, every other
/// end has lost the lock, and nothing changes.
pub(super) async fn only_its_repeat_is_settled(rig: &Rig, lock: &Lock, settled: &AttemptEnd) {
    let before = rig.find(lock.id.as_str()).await;
    for end in every_end() {
        let expected = if end.kind() == settled.kind() {
            SettleOutcome::Settled
        } else {
            SettleOutcome::LockLost
        };
        let outcome = rig.settle(lock, end.clone()).await;
        assert_eq!(outcome, expected, "{end:?} after {settled:?}");
    }
    assert_eq!(rig.find(lock.id.as_str()).await, before);
}

pub async fn another_end_by_a_settled_lock_has_lost_it(rig: &Rig) {
    for settled in every_end() {
        let task = rig.run("1").await;
        rig.settled(&task.lock, settled.clone()).await;
        only_its_repeat_is_settled(rig, &task.lock, &settled).await;
        // A cancel only changes a task that is scheduled; then the same holds. Any other task is
        // unchanged.
        let _ = rig.cancel("1").await;
        only_its_repeat_is_settled(rig, &task.lock, &settled).await;
        rig.free("1").await;
    }
}

pub async fn another_end_by_a_settled_lock_is_lost_while_the_next_attempt_runs(rig: &Rig) {
    for settled in [retry(Duration::ZERO), release(Duration::ZERO)] {
        let first = rig.run("1").await;
        rig.settled(&first.lock, settled.clone()).await;
        let second = rig.claim_one().await;
        only_its_repeat_is_settled(rig, &first.lock, &settled).await;
        rig.expire(&second.lock).await;
        let third = rig.claim_one().await;
        only_its_repeat_is_settled(rig, &first.lock, &settled).await;
        assert_eq!(
            rig.settle(&third.lock, AttemptEnd::Done).await,
            SettleOutcome::Settled
        );
        only_its_repeat_is_settled(rig, &third.lock, &AttemptEnd::Done).await;
        rig.free("1").await;
    }
}

pub async fn another_end_by_the_lock_of_a_cancelled_attempt_has_lost_it(rig: &Rig) {
    for settled in every_end() {
        let task = rig.run("1").await;
        let _ = rig.cancel("1").await;
        rig.settled(&task.lock, settled.clone()).await;
        only_its_repeat_is_settled(rig, &task.lock, &settled).await;
        rig.free("1").await;
    }
}

pub async fn a_requeued_task_knows_its_last_end(rig: &Rig) {
    let task = rig.run("1").await;
    rig.settled(&task.lock, dead("gone")).await;
    let ids = DeadFilter::Ids(vec![id("1")]);
    let task_type = usual_type();
    let requeued = rig.store().requeue_dead(&task_type, &ids, Duration::ZERO);
    assert_eq!(requeued.await.unwrap(), [id("1")]);
    only_its_repeat_is_settled(rig, &task.lock, &dead("gone")).await;
}

pub async fn a_settlement_repeated_after_the_retention_has_lost_its_lock(rig: &Rig) {
    let rig = rig.with_retention(Duration::ZERO).await;
    let task = rig.run("1").await;
    assert_eq!(
        rig.settle(&task.lock, AttemptEnd::Done).await,
        SettleOutcome::Settled
    );
    assert_eq!(
        rig.settle(&task.lock, AttemptEnd::Done).await,
        SettleOutcome::LockLost
    );
    rig.finish().await;
}
