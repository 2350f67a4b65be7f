//! Pauses of a type: claims hand out nothing, everything else goes on.

use delayq_core::store::{AttemptEnd, CancelOutcome, ExtendOutcome, SettleOutcome};
use delayq_core::{DelayQueueJob, TaskState, TaskType, Timestamp, hours};

use super::rig::{LONG, Rig, SHORT, job, usual_type};

async fn pause(rig: &Rig, until: Option<Timestamp>) {
    rig.store().pause(&usual_type(), until).await.unwrap();
}

async fn resume(rig: &Rig) {
    rig.store().resume(&usual_type()).await.unwrap();
}

async fn paused_until(rig: &Rig) -> Option<Timestamp> {
    rig.store().stats(&usual_type()).await.unwrap().paused_until
}

pub async fn a_paused_type_hands_out_nothing_until_it_is_resumed(rig: &Rig) {
    rig.accept(job("1")).await;
    pause(rig, None).await;
    let claimed = rig.claim().await;
    assert_eq!((claimed.tasks.len(), claimed.next_at()), (0, None));
    assert_eq!(paused_until(rig).await, Some(Timestamp::MAX));
    resume(rig).await;
    assert_eq!(paused_until(rig).await, None);
    rig.claim_one().await;
}

pub async fn a_pause_with_an_end_ends_by_itself(rig: &Rig) {
    rig.accept(job("1")).await;
    let until = rig.now().await.plus(LONG);
    pause(rig, Some(until)).await;
    assert_eq!(paused_until(rig).await, Some(until));
    let claimed = rig.claim().await;
    assert_eq!((claimed.tasks.len(), claimed.next_at()), (0, Some(until)));
    let until = rig.now().await.plus(SHORT);
    pause(rig, Some(until)).await;
    rig.reach(until).await;
    assert_eq!(paused_until(rig).await, None);
    rig.claim_one().await;
}

pub async fn a_pause_that_has_ended_already_pauses_nothing(rig: &Rig) {
    rig.accept(job("1")).await;
    let now = rig.now().await;
    pause(rig, Some(now)).await;
    assert_eq!(paused_until(rig).await, None);
    rig.claim_one().await;
}

pub async fn a_pause_can_be_lengthened_and_shortened(rig: &Rig) {
    rig.accept(job("1")).await;
    let now = rig.now().await;
    for until in [
        Some(now.plus(hours(1))),
        None,
        Some(now.plus(hours(2))),
        Some(now),
    ] {
        pause(rig, until).await;
        let expected = until.unwrap_or(Timestamp::MAX);
        assert_eq!(
            paused_until(rig).await,
            Some(expected).filter(|until| *until > now)
        );
    }
    rig.claim_one().await;
}

pub async fn a_paused_type_keeps_expired_locks_too(rig: &Rig) {
    let task = rig.run("1").await;
    pause(rig, None).await;
    rig.expire(&task.lock).await;
    let claimed = rig.claim().await;
    assert_eq!(
        (claimed.tasks.len(), claimed.ended.len(), claimed.next_at()),
        (0, 0, None)
    );
    resume(rig).await;
    assert_eq!(rig.claim_one().await.attempt, 2);
}

pub async fn running_tasks_go_on_while_their_type_is_paused(rig: &Rig) {
    let task = rig.run("1").await;
    pause(rig, None).await;
    assert!(matches!(
        rig.extend(&task.lock, LONG).await,
        ExtendOutcome::Extended(_)
    ));
    assert_eq!(
        rig.settle(&task.lock, AttemptEnd::Done).await,
        SettleOutcome::Settled
    );
}

pub async fn a_paused_type_takes_submits_and_cancels(rig: &Rig) {
    pause(rig, None).await;
    rig.accept(job("1")).await;
    rig.accept(job("2")).await;
    assert_eq!(rig.cancel("1").await, CancelOutcome::Cancelled);
    resume(rig).await;
    assert_eq!(rig.claim_one().await.lock.id.as_str(), "2");
}

pub async fn a_paused_type_expires_nothing(rig: &Rig) {
    rig.accept(job("1").expires_after(SHORT)).await;
    pause(rig, None).await;
    rig.pass(SHORT).await;
    rig.claims_nothing().await;
    assert_eq!(rig.state("1").await, Some(TaskState::Scheduled));
    resume(rig).await;
    assert_eq!(rig.claim().await.ended.len(), 1);
}

pub async fn a_pause_concerns_one_type(rig: &Rig) {
    pause(rig, None).await;
    rig.accept(job("1")).await;
    let other = TaskType::new("gift.refund").unwrap();
    rig.accept(DelayQueueJob::raw(other.as_str(), "m")).await;
    let claimed = rig.claim_of(&other, &rig.request().await).await;
    assert_eq!(claimed.tasks.len(), 1);
    rig.claims_nothing().await;
}

pub async fn a_type_can_be_paused_before_its_first_task(rig: &Rig) {
    pause(rig, None).await;
    rig.accept(job("1")).await;
    rig.claims_nothing().await;
    resume(rig).await;
    resume(rig).await;
    rig.claim_one().await;
}
