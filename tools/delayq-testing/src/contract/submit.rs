//! Submits of new tasks.

use std::time::Duration;

use delayq_core::store::SubmitOutcome;
use delayq_core::{AttemptHistory, DelayQueueJob, TaskState, Timestamp, hours, millis};

use super::micros::micros;
use super::rig::{LONG, Rig, TYPE, id, job, usual_type};

pub async fn a_submitted_task_is_found_at_once_as_it_was_sent(rig: &Rig) {
    let due_at = rig
        .accept(job("1").after(LONG).header("shop", "berlin"))
        .await;
    let info = rig.info("1").await;
    assert_eq!(info.id, id("1"));
    assert_eq!(info.state, TaskState::Scheduled);
    assert_eq!(info.at, due_at);
    assert_eq!(info.submitted_at, Some(due_at.minus(LONG)));
    assert_eq!(info.expires_at, None);
    assert_eq!(info.attempt, 0);
    assert_eq!(info.message.as_deref(), Some(&b"message"[..]));
    assert_eq!(info.headers.get("shop").map(String::as_str), Some("berlin"));
    assert_eq!(info.headers.len(), 1);
    assert_eq!(info.history, AttemptHistory::default());
    assert!(!info.cancel_requested);
}

pub async fn a_delay_counts_from_the_stores_clock(rig: &Rig) {
    let before = rig.now().await;
    let due_at = rig.accept(job("1").after(hours(2))).await;
    // Counted from the end of the present millisecond.
    let after = rig.now().await.plus(millis(1));
    assert!(due_at >= before.plus(hours(2)) && due_at <= after.plus(hours(2)));
}

pub async fn a_delay_counts_from_the_end_of_the_present_millisecond(rig: &Rig) {
    for n in 0..50 {
        let task = rig.task(job(&n.to_string()).after(millis(1))).await;
        let before = micros(rig).await;
        let outcomes = rig.store().submit(vec![task]).await;
        let Ok(SubmitOutcome::Accepted { due_at, .. }) = outcomes[0] else {
            panic!("{outcomes:?}");
        };
        assert!(due_at.as_millis() * 1_000 >= before + 1_000);
    }
}

pub async fn a_delay_is_never_cut_short_by_rounding(rig: &Rig) {
    let due_at = rig.accept(job("1").after(Duration::from_nanos(1))).await;
    let submitted_at = rig.info("1").await.submitted_at.unwrap();
    assert_eq!(due_at.since(submitted_at), millis(1));
}

pub async fn an_absolute_time_is_kept_to_the_millisecond(rig: &Rig) {
    let due_at = Timestamp::from_millis(rig.now().await.plus(LONG).as_millis() | 1);
    assert_eq!(rig.accept(job("1").at(due_at)).await, due_at);
    assert_eq!(rig.info("1").await.at, due_at);
}

pub async fn a_past_time_means_now(rig: &Rig) {
    let past = rig.now().await.minus(LONG);
    let due_at = rig.accept(job("1").at(past)).await;
    assert_eq!(rig.info("1").await.submitted_at, Some(due_at));
    assert_eq!(rig.claim_one().await.due_at, due_at);
}

pub async fn a_task_can_wait_for_ten_years(rig: &Rig) {
    let due_at = rig
        .accept(job("1").after(delayq_core::time::MAX_DELAY))
        .await;
    assert_eq!(rig.info("1").await.at, due_at);
    assert_eq!(rig.claim().await.next_at(), Some(due_at));
}

pub async fn an_empty_batch_is_answered_with_nothing(rig: &Rig) {
    assert_eq!(rig.store().submit(Vec::new()).await, []);
}

pub async fn a_batch_of_a_thousand_has_one_outcome_each_in_order(rig: &Rig) {
    let mut tasks = Vec::new();
    for n in 0..1_000_u64 {
        let task_type = ["order.cancel", "gift.refund", "stock.release"][(n % 3) as usize];
        let id = format!("order-{}", n / 3);
        let job = DelayQueueJob::raw(task_type, n.to_string()).id(id);
        tasks.push(rig.task(job.after(hours(1) + millis(n))).await);
    }
    let outcomes = rig.store().submit(tasks.clone()).await;
    assert_eq!(outcomes.len(), 1_000);
    for (task, outcome) in tasks.iter().zip(outcomes) {
        let info = rig
            .store()
            .find(&task.task_type, &task.id)
            .await
            .unwrap()
            .unwrap();
        let accepted = SubmitOutcome::Accepted {
            due_at: info.at,
            replaced: false,
        };
        assert_eq!(outcome, Ok(accepted), "{}", task.id);
        assert_eq!(info.message.as_ref(), Some(&task.message));
    }
}

pub async fn a_batch_mixes_accepted_repeated_and_conflicting_tasks(rig: &Rig) {
    rig.accept(job("old").after(LONG)).await;
    let jobs = [
        job("new").after(LONG),
        job("old").after(LONG),
        DelayQueueJob::raw(TYPE, "another").id("old"),
        DelayQueueJob::raw("gift.refund", "another").id("old"),
    ];
    let mut tasks = Vec::new();
    for job in jobs {
        tasks.push(rig.task(job).await);
    }
    let state = TaskState::Scheduled;
    let outcomes = rig.store().submit(tasks).await;
    assert!(matches!(outcomes[0], Ok(SubmitOutcome::Accepted { .. })));
    assert_eq!(outcomes[1], Ok(SubmitOutcome::AlreadyExists { state }));
    assert_eq!(outcomes[2], Ok(SubmitOutcome::Conflict { state }));
    assert!(matches!(outcomes[3], Ok(SubmitOutcome::Accepted { .. })));
    assert_eq!(outcomes.len(), 4);
}

pub async fn equal_ids_in_one_batch_are_judged_in_order(rig: &Rig) {
    let first = rig.task(job("1").after(LONG)).await;
    let other = rig.task(job("1").after(LONG).header("shop", "bonn")).await;
    let replacing = rig
        .task(job("1").after(LONG).header("shop", "bonn").replace())
        .await;
    let batch = vec![first.clone(), first, other, replacing];
    let outcomes = rig.store().submit(batch).await;
    let state = TaskState::Scheduled;
    let is_accepted = |n: usize, was: bool| matches!(outcomes[n], Ok(SubmitOutcome::Accepted { replaced, .. }) if replaced == was);
    assert!(is_accepted(0, false));
    assert_eq!(outcomes[1], Ok(SubmitOutcome::AlreadyExists { state }));
    assert_eq!(outcomes[2], Ok(SubmitOutcome::Conflict { state }));
    assert!(is_accepted(3, true));
    assert_eq!(rig.info("1").await.headers.len(), 1);
    assert_eq!(rig.store().stats(&usual_type()).await.unwrap().scheduled, 1);
}

pub async fn the_same_id_in_two_types_is_two_tasks(rig: &Rig) {
    rig.accept(job("1")).await;
    rig.accept(DelayQueueJob::raw("gift.refund", "refund").id("1"))
        .await;
    assert_eq!(rig.claim_one().await.message, b"message");
    rig.claims_nothing().await;
}
