//! Defects of published designs of delayed queues, with one test for each.

use delayq_core::store::{AttemptEnd, ExtendOutcome, SettleOutcome, SubmitOutcome};
use delayq_core::{DelayQueueJob, Lock, TaskState, TaskType, When, hours, millis, minutes};

use super::rig::{LONG, Rig, SHORT, TYPE, every_end, job, retry, usual_type};

/// The value of a lock was the task's id: a holder that had lost it could free it for its
/// successor.
pub async fn a_zombie_cannot_free_its_successors_lock(rig: &Rig) {
    let zombie = rig.run("1").await;
    rig.expire(&zombie.lock).await;
    let successor = rig.claim_one().await;
    for end in every_end() {
        assert_eq!(rig.settle(&zombie.lock, end).await, SettleOutcome::LockLost);
    }
    assert_eq!(
        rig.extend(&zombie.lock, LONG).await,
        ExtendOutcome::LockLost
    );
    rig.claims_nothing().await;
    rig.settled(&successor.lock, AttemptEnd::Done).await;
}

/// The handler looked only at the head of the bucket: once moved later, it hid all tasks behind it.
pub async fn a_task_moved_later_does_not_block_its_type(rig: &Rig) {
    rig.accept(job("first").after(minutes(1))).await;
    let due_at = rig.accept(job("second").after(minutes(2))).await;
    let _ = rig.reschedule("first", When::After(hours(1))).await;
    assert_eq!(rig.claim().await.next_at(), Some(due_at));
    let _ = rig.reschedule("second", When::After(SHORT)).await;
    rig.pass(SHORT).await;
    assert_eq!(rig.claim_one().await.lock.id.as_str(), "second");
}

/// A cancelled task kept its message until its due time.
pub async fn a_cancelled_task_frees_its_memory_at_once(rig: &Rig) {
    rig.accept(job("1").after(hours(1_000)).header("shop", "berlin"))
        .await;
    let _ = rig.cancel("1").await;
    let info = rig.info("1").await;
    assert_eq!((info.message, info.headers.len()), (None, 0));
    let stats = rig.store().stats(&usual_type()).await.unwrap();
    assert_eq!((stats.scheduled, stats.next_due), (0, None));
}

/// An acknowledgement needed no lock: anybody could destroy a task that was still waiting.
pub async fn finishing_a_waiting_task_is_impossible_without_its_lock(rig: &Rig) {
    rig.accept(job("never-ran").after(LONG)).await;
    let ran = rig.run("ran").await;
    rig.settled(&ran.lock, retry(LONG)).await;
    for (id, fence) in [
        ("never-ran", 0),
        ("never-ran", ran.lock.fence),
        ("ran", 0),
        ("ran", 1),
    ] {
        let id = super::rig::id(id);
        let before = rig.find(id.as_str()).await;
        let lock = Lock { id, fence };
        assert_eq!(
            rig.settle(&lock, AttemptEnd::Done).await,
            SettleOutcome::LockLost
        );
        assert_eq!(rig.find(lock.id.as_str()).await, before);
    }
}

/// Only the waiting tasks were searched for duplicates.
pub async fn a_duplicate_submit_while_running_makes_no_second_copy(rig: &Rig) {
    let task = rig.run("1").await;
    let state = TaskState::Running;
    assert_eq!(
        rig.submit(job("1")).await,
        SubmitOutcome::AlreadyExists { state }
    );
    let other = DelayQueueJob::raw(TYPE, "other").id("1");
    for job in [other.clone(), other.clone().replace()] {
        assert_eq!(rig.submit(job).await, SubmitOutcome::Conflict { state });
    }
    assert_eq!(
        rig.submit(other.keep()).await,
        SubmitOutcome::AlreadyExists { state }
    );
    rig.claims_nothing().await;
    rig.settled(&task.lock, AttemptEnd::Done).await;
    rig.claims_nothing().await;
}

/// Message bodies were converted to JSON strings.
pub async fn binary_bodies_are_not_corrupted(rig: &Rig) {
    let body = [0xff, 0xfe, 0x00, 0xc3, 0x28, 0xed, 0xa0, 0x80];
    rig.accept(DelayQueueJob::raw(TYPE, body)).await;
    assert_eq!(rig.claim_one().await.message, body);
}

/// Tasks with equal bodies counted as equal.
pub async fn equal_messages_are_different_tasks(rig: &Rig) {
    rig.accept(DelayQueueJob::raw(TYPE, "same")).await;
    rig.accept(DelayQueueJob::raw(TYPE, "same")).await;
    assert_eq!(rig.claim().await.tasks.len(), 2);
}

/// The entry was removed before its handler ran.
pub async fn a_claimed_task_is_kept_until_it_is_settled(rig: &Rig) {
    let task = rig.run("1").await;
    assert_eq!(rig.info("1").await.message, Some(task.message));
    // Its holder crashes: nothing is settled, and only time passes.
    rig.expire(&task.lock).await;
    let again = rig.claim_one().await;
    assert_eq!((again.lock.id.as_str(), again.attempt), ("1", 2));
}

/// Times were whole seconds, and tasks started up to one second early.
pub async fn due_times_are_exact_to_the_millisecond(rig: &Rig) {
    let base = rig.now().await.plus(LONG);
    let due_at = base.plus(millis(
        1_001 - u64::try_from(base.as_millis() % 1_000).unwrap(),
    ));
    rig.accept(job("1").at(due_at)).await;
    assert_eq!(rig.info("1").await.at, due_at);
    assert_eq!(due_at.as_millis() % 1_000, 1);
    assert_eq!(rig.claim().await.next_at(), Some(due_at));
}

/// Tasks more than 30 minutes late were dropped silently. Without an expiry, none may be.
pub async fn a_late_task_is_not_dropped(rig: &Rig) {
    rig.accept(job("1").at(rig.now().await.minus(hours(10_000))))
        .await;
    assert_eq!(rig.claim_one().await.lock.id.as_str(), "1");
}

/// Retries ignored their interval.
pub async fn a_retry_does_not_start_before_its_interval(rig: &Rig) {
    let task = rig.run("1").await;
    rig.settled(&task.lock, retry(LONG)).await;
    rig.claims_nothing().await;
    assert_eq!(rig.claim().await.next_at(), Some(rig.info("1").await.at));
}

/// The lock was released after the entry had been removed, and the task ran again elsewhere.
pub async fn a_settled_task_is_not_run_again(rig: &Rig) {
    let task = rig.run("1").await;
    rig.settled(&task.lock, AttemptEnd::Done).await;
    assert_eq!(rig.extend(&task.lock, LONG).await, ExtendOutcome::LockLost);
    let end = super::rig::release(millis(0));
    rig.settle(&task.lock, end).await;
    rig.claims_nothing().await;
    assert_eq!(rig.state("1").await, Some(TaskState::Done));
}

/// Records were never deleted.
pub async fn an_ended_task_leaves_nothing_behind_after_its_retention(rig: &Rig) {
    let rig = rig.with_retention(millis(0)).await;
    for end in [AttemptEnd::Done, AttemptEnd::Expired] {
        let task = rig.run("1").await;
        rig.settled(&task.lock, end).await;
        assert_eq!(rig.find("1").await, None);
    }
    let report = rig.store().audit(&usual_type(), false).await.unwrap();
    assert_eq!((report.checked, report.problems.len()), (0, 0));
    rig.finish().await;
}

/// Many due tasks of one type hid the tasks of another.
pub async fn a_busy_type_does_not_hide_another(rig: &Rig) {
    let names = (0..200).map(|n| n.to_string());
    let mut batch = Vec::new();
    for id in names {
        batch.push(rig.task(job(&id)).await);
    }
    rig.store().submit(batch).await;
    rig.accept(DelayQueueJob::raw("gift.refund", "m").id("gift"))
        .await;
    let other = TaskType::new("gift.refund").unwrap();
    let claimed = rig.claim_of(&other, &rig.request().await).await;
    assert_eq!(claimed.ids(), ["gift"]);
}
