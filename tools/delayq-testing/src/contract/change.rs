//! Rescheduling and updating, in each state.

use std::time::Duration;

use delayq_core::TaskState::{Cancelled, Dead, Done, Expired, Running};
use delayq_core::store::ChangeOutcome;
use delayq_core::{Error, When, hours, millis};

use super::micros::micros;
use super::rig::{LONG, Rig, SHORT, job, release, retry, usual_type};

pub async fn a_task_can_be_moved_earlier_and_later(rig: &Rig) {
    rig.accept(job("1").after(hours(2))).await;
    for hour in [3, 1, 2] {
        let before = rig.now().await;
        let outcome = rig.reschedule("1", When::After(hours(hour))).await;
        let due_at = rig.info("1").await.at;
        assert_eq!(outcome, ChangeOutcome::Changed { due_at });
        assert!(due_at >= before.plus(hours(hour)));
        assert!(due_at <= rig.now().await.plus(hours(hour) + millis(1)));
        assert_eq!(rig.claim().await.next_at(), Some(due_at));
    }
    let due_at = rig.now().await.plus(hours(9));
    let outcome = rig.reschedule("1", When::At(due_at)).await;
    assert_eq!(outcome, ChangeOutcome::Changed { due_at });
}

pub async fn a_moved_task_waits_from_the_end_of_the_present_millisecond(rig: &Rig) {
    rig.accept(job("1").after(LONG)).await;
    for _ in 0..50 {
        let before = micros(rig).await;
        let _ = rig.reschedule("1", When::After(millis(1))).await;
        assert!(rig.info("1").await.at.as_millis() * 1_000 >= before + 1_000);
    }
}

pub async fn a_task_can_be_run_now(rig: &Rig) {
    rig.accept(job("1").after(LONG)).await;
    rig.claims_nothing().await;
    rig.run_now("1").await;
    assert_eq!(rig.claim_one().await.message, b"message");
}

pub async fn rescheduling_to_a_past_time_means_now(rig: &Rig) {
    rig.accept(job("1").after(LONG)).await;
    let before = rig.now().await;
    let outcome = rig.reschedule("1", When::At(before.minus(LONG))).await;
    let ChangeOutcome::Changed { due_at } = outcome else {
        panic!("{outcome:?}");
    };
    assert!(due_at >= before && due_at <= rig.now().await.plus(millis(1)));
    rig.pass(millis(1)).await;
    assert_eq!(rig.claim_one().await.due_at, due_at);
}

/// The submit time of a task with a delay is the end of its millisecond.
pub async fn a_task_moved_at_once_is_not_due_before_its_submit(rig: &Rig) {
    for n in 0..20 {
        let id = n.to_string();
        let past = rig.now().await.minus(LONG);
        rig.accept(job(&id).after(LONG)).await;
        let _ = rig.reschedule(&id, When::At(past)).await;
        let info = rig.info(&id).await;
        assert!(Some(info.at) >= info.submitted_at, "{info:?}");
        let _ = rig.cancel(&id).await;
    }
}

pub async fn rescheduling_keeps_message_headers_and_attempts(rig: &Rig) {
    rig.accept(job("1").header("shop", "berlin")).await;
    let task = rig.claim_one().await;
    rig.settle(&task.lock, retry(LONG)).await;
    let before = rig.info("1").await;
    let outcome = rig.reschedule("1", When::After(SHORT)).await;
    let mut after = rig.info("1").await;
    assert_eq!(outcome, ChangeOutcome::Changed { due_at: after.at });
    assert!(after.at < before.at);
    assert_eq!(after.due_at, Some(after.at));
    (after.at, after.due_at, after.waits_for) = (before.at, before.due_at, before.waits_for);
    // The due time of the previous attempt is derived from the last requested due time.
    after.errors[0].due_at = before.errors[0].due_at;
    assert_eq!(after, before);
    rig.pass(SHORT).await;
    let task = rig.claim_one().await;
    assert_eq!((task.attempt, task.headers.len()), (2, 1));
}

pub async fn a_repeat_after_a_lost_lock_was_due_when_the_reschedule_said(rig: &Rig) {
    rig.accept(job("1").after(LONG)).await;
    let due_at = rig.run_now("1").await;
    let task = rig.claim_one().await;
    rig.expire(&task.lock).await;
    assert_eq!(rig.claim_one().await.due_at, due_at);
}

pub async fn an_update_replaces_the_message_alone(rig: &Rig) {
    let due_at = rig
        .accept(job("1").after(LONG).header("shop", "berlin"))
        .await;
    let before = rig.info("1").await;
    assert_eq!(
        rig.update("1", "new").await,
        ChangeOutcome::Changed { due_at }
    );
    let mut after = rig.info("1").await;
    assert_eq!(after.message.as_deref(), Some(&b"new"[..]));
    after.message.clone_from(&before.message);
    assert_eq!(after, before);
    rig.run_now("1").await;
    let task = rig.claim_one().await;
    assert_eq!(
        (task.message.as_slice(), task.headers.len()),
        (&b"new"[..], 1)
    );
}

pub async fn an_update_gives_headers_that_the_task_has_new_values(rig: &Rig) {
    let jobs = [
        job("1")
            .after(LONG)
            .header("shop", "berlin")
            .header("a", "b"),
        job("2")
            .after(LONG)
            .header("shop", "bonn")
            .expires_after(LONG),
        job("3").after(LONG),
    ];
    let values = [("shop", "a \"new\" one"), ("other", "x")];
    let values = values.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let values = values.into();
    for job in jobs {
        let due_at = rig.accept(job.clone()).await;
        let before = rig.info(job.task_id()).await;
        let (task_type, new) = (usual_type(), b"new".to_vec());
        let updated = rig
            .store()
            .update_with(&task_type, &before.id, new, &values);
        let changed = match updated.await {
            // This operation is optional.
            Err(Error::Unsupported(_)) => return,
            changed => changed,
        };
        let expected = Ok(ChangeOutcome::Changed { due_at });
        assert_eq!(changed, expected, "{before:?}");
        let mut after = rig.info(job.task_id()).await;
        assert_eq!(after.message.as_deref(), Some(&b"new"[..]));
        let shop = after.headers.get("shop").map(String::as_str);
        let had = before.headers.contains_key("shop");
        assert_eq!(shop, had.then_some("a \"new\" one"));
        (after.headers, after.message) = (before.headers.clone(), before.message.clone());
        assert_eq!(after, before);
    }
    let (task_type, running) = (usual_type(), rig.run("4").await.lock.id);
    let updated = rig
        .store()
        .update_with(&task_type, &running, Vec::new(), &values);
    assert_eq!(updated.await, Ok(ChangeOutcome::Running));
}

pub async fn a_task_given_back_can_be_updated(rig: &Rig) {
    let task = rig.run("1").await;
    rig.settle(&task.lock, release(Duration::ZERO)).await;
    let due_at = rig.info("1").await.at;
    assert_eq!(
        rig.update("1", "new").await,
        ChangeOutcome::Changed { due_at }
    );
    assert_eq!(rig.claim_one().await.message, b"new");
}

pub async fn rescheduling_and_updating_say_why_not(rig: &Rig) {
    assert_eq!(
        rig.reschedule("unknown", When::After(LONG)).await,
        ChangeOutcome::NotFound
    );
    assert_eq!(rig.update("unknown", "new").await, ChangeOutcome::NotFound);
    for state in [Running, Dead, Done, Cancelled, Expired] {
        let id = state.as_str();
        rig.bring(id, state).await;
        let before = rig.find(id).await;
        let expected = match state {
            Running => ChangeOutcome::Running,
            state => ChangeOutcome::Finished(state),
        };
        assert_eq!(rig.reschedule(id, When::After(LONG)).await, expected);
        assert_eq!(rig.update(id, "new").await, expected);
        assert_eq!(rig.find(id).await, before);
    }
}
