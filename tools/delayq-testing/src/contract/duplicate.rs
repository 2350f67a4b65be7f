//! Submits of an id that exists or existed before.

use delayq_core::operate::DeadFilter;
use delayq_core::store::{AttemptEnd, SettleOutcome, SubmitOutcome};
use delayq_core::{DelayQueueJob, TaskState, When, hours, millis};

use super::rig::{LONG, Rig, SHORT, TYPE, dead, job, retry, usual_type};

const LIVE: [TaskState; 3] = [TaskState::Scheduled, TaskState::Running, TaskState::Dead];
const ENDED: [TaskState; 3] = [TaskState::Done, TaskState::Cancelled, TaskState::Expired];

/// The request that [`Rig::bring`] submits for a task in `state`, for sending it again.
fn same_request(state: TaskState) -> DelayQueueJob {
    let job = job(state.as_str());
    if state == TaskState::Scheduled {
        job.after(LONG)
    } else {
        job
    }
}

fn other_request(state: TaskState) -> DelayQueueJob {
    same_request(state).header("shop", "bonn")
}

async fn bring(rig: &Rig, state: TaskState) {
    rig.bring(state.as_str(), state).await;
}

pub async fn the_same_request_is_known_in_every_state(rig: &Rig) {
    for state in LIVE.into_iter().chain(ENDED) {
        bring(rig, state).await;
        let before = rig.find(state.as_str()).await;
        let exists = SubmitOutcome::AlreadyExists { state };
        assert_eq!(rig.submit(same_request(state)).await, exists);
        assert_eq!(rig.submit(same_request(state).keep()).await, exists);
        assert_eq!(rig.find(state.as_str()).await, before);
    }
    rig.claims_nothing().await;
}

pub async fn the_same_request_is_known_even_if_it_would_replace(rig: &Rig) {
    let state = TaskState::Running;
    bring(rig, state).await;
    let outcome = rig.submit(same_request(state).replace()).await;
    assert_eq!(outcome, SubmitOutcome::AlreadyExists { state });
    let state = TaskState::Scheduled;
    let time = rig.now().await.plus(LONG);
    let at = || job("at-a-time").at(time).replace();
    rig.accept(at()).await;
    let outcome = rig.submit(at()).await;
    assert_eq!(outcome, SubmitOutcome::AlreadyExists { state });
}

pub async fn replace_with_the_same_delay_moves_the_task(rig: &Rig) {
    for state in [TaskState::Scheduled, TaskState::Dead] {
        bring(rig, state).await;
        let before = rig.info(state.as_str()).await;
        rig.pass(SHORT).await;
        let outcome = rig.submit(same_request(state).replace()).await;
        let info = rig.info(state.as_str()).await;
        let accepted = SubmitOutcome::Accepted {
            due_at: info.at,
            replaced: true,
        };
        assert_eq!((outcome, info.state), (accepted, TaskState::Scheduled));
        assert!(info.at >= before.at.plus(SHORT), "{state}");
    }
}

pub async fn another_request_conflicts_and_changes_nothing(rig: &Rig) {
    for state in LIVE {
        bring(rig, state).await;
        let before = rig.find(state.as_str()).await;
        let outcome = rig.submit(other_request(state)).await;
        assert_eq!(outcome, SubmitOutcome::Conflict { state });
        assert_eq!(rig.find(state.as_str()).await, before);
    }
}

pub async fn a_request_differs_by_message_header_expiry_delay_or_kind_of_time(rig: &Rig) {
    let first = job("1")
        .after(LONG)
        .header("shop", "bonn")
        .expires_after(LONG);
    let due_at = rig.accept(first.clone()).await;
    let raw = DelayQueueJob::raw(TYPE, "another").id("1");
    let others = [
        raw.after(LONG).header("shop", "bonn").expires_after(LONG),
        first.clone().header("shop", "berlin"),
        first.clone().header("till", "1"),
        job("1").after(LONG).expires_after(LONG),
        job("1").after(LONG).header("shop", "bonn"),
        first.clone().expires_after(LONG + millis(1)),
        first.clone().expires_at(due_at.plus(LONG)),
        first.clone().after(LONG + millis(1)),
        first.clone().at(due_at),
    ];
    let state = TaskState::Scheduled;
    for other in others {
        let outcome = rig.submit(other.clone()).await;
        assert_eq!(outcome, SubmitOutcome::Conflict { state }, "{other:?}");
    }
    assert_eq!(
        rig.submit(first).await,
        SubmitOutcome::AlreadyExists { state }
    );
}

pub async fn a_message_and_a_header_cannot_be_taken_for_each_other(rig: &Rig) {
    let first = DelayQueueJob::raw(TYPE, "ab")
        .id("1")
        .header("a", "bc")
        .header("d", "");
    rig.accept(first.clone()).await;
    let task = rig.claim_one().await;
    rig.settle(&task.lock, AttemptEnd::Done).await;
    let state = TaskState::Done;
    assert_eq!(
        rig.submit(first).await,
        SubmitOutcome::AlreadyExists { state }
    );
    let shifted = DelayQueueJob::raw(TYPE, "ab")
        .id("1")
        .header("ab", "c")
        .header("d", "");
    rig.accept(shifted).await;
}

pub async fn an_ended_request_differs_by_its_expiry_too(rig: &Rig) {
    for (id, expiry) in [("1", LONG), ("2", LONG + LONG)] {
        rig.accept(job(id).expires_after(expiry)).await;
        let task = rig.claim_one().await;
        rig.settled(&task.lock, AttemptEnd::Done).await;
        let state = TaskState::Done;
        let again = rig.submit(job(id).expires_after(expiry)).await;
        assert_eq!(again, SubmitOutcome::AlreadyExists { state });
    }
    rig.accept(job("1").expires_after(LONG + millis(1)).after(LONG))
        .await;
    rig.accept(job("2").after(LONG)).await;
}

pub async fn the_same_absolute_time_is_the_same_request(rig: &Rig) {
    let due_at = rig.now().await.plus(LONG);
    rig.accept(job("1").at(due_at)).await;
    let state = TaskState::Scheduled;
    let outcome = rig.submit(job("1").at(due_at)).await;
    assert_eq!(outcome, SubmitOutcome::AlreadyExists { state });
    let outcome = rig.submit(job("1").at(due_at.plus(millis(1)))).await;
    assert_eq!(outcome, SubmitOutcome::Conflict { state });
}

pub async fn a_past_time_is_the_same_request_when_it_is_sent_again_later(rig: &Rig) {
    let past = rig.now().await.minus(LONG);
    rig.accept(job("1").at(past)).await;
    rig.pass(SHORT).await;
    let state = TaskState::Scheduled;
    let outcome = rig.submit(job("1").at(past)).await;
    assert_eq!(outcome, SubmitOutcome::AlreadyExists { state });
}

pub async fn a_rescheduled_task_is_known_by_its_new_time(rig: &Rig) {
    rig.accept(job("1").after(LONG)).await;
    let due_at = rig.now().await.plus(hours(3));
    let _ = rig.reschedule("1", When::At(due_at)).await;
    let state = TaskState::Scheduled;
    let outcome = rig.submit(job("1").after(LONG)).await;
    assert_eq!(outcome, SubmitOutcome::Conflict { state });
    let outcome = rig.submit(job("1").at(due_at)).await;
    assert_eq!(outcome, SubmitOutcome::AlreadyExists { state });
}

pub async fn an_updated_task_is_known_by_its_new_message(rig: &Rig) {
    rig.accept(job("1").after(LONG)).await;
    let _ = rig.update("1", "new").await;
    let state = TaskState::Scheduled;
    let outcome = rig.submit(job("1").after(LONG)).await;
    assert_eq!(outcome, SubmitOutcome::Conflict { state });
    let new = DelayQueueJob::raw(TYPE, "new").id("1").after(LONG);
    assert_eq!(
        rig.submit(new).await,
        SubmitOutcome::AlreadyExists { state }
    );
}

pub async fn a_retried_task_is_still_the_same_request(rig: &Rig) {
    let task = rig.run("1").await;
    rig.settle(&task.lock, retry(LONG)).await;
    let before = rig.find("1").await;
    let state = TaskState::Scheduled;
    assert_eq!(
        rig.submit(job("1")).await,
        SubmitOutcome::AlreadyExists { state }
    );
    assert_eq!(rig.find("1").await, before);
}

pub async fn keep_keeps_the_old_task(rig: &Rig) {
    for state in LIVE {
        bring(rig, state).await;
        let before = rig.find(state.as_str()).await;
        let outcome = rig.submit(other_request(state).keep()).await;
        assert_eq!(outcome, SubmitOutcome::AlreadyExists { state });
        assert_eq!(rig.find(state.as_str()).await, before);
    }
}

pub async fn replace_puts_the_new_task_in_the_old_ones_place(rig: &Rig) {
    for state in [TaskState::Scheduled, TaskState::Dead] {
        bring(rig, state).await;
        let outcome = rig
            .submit(other_request(state).after(hours(2)).replace())
            .await;
        let info = rig.info(state.as_str()).await;
        let accepted = SubmitOutcome::Accepted {
            due_at: info.at,
            replaced: true,
        };
        assert_eq!(outcome, accepted);
        assert_eq!(info.state, TaskState::Scheduled);
        assert_eq!(info.submitted_at, Some(info.at.minus(hours(2))));
        assert_eq!(info.headers.len(), 1);
        assert_eq!(
            (info.attempt, info.history),
            (0, delayq_core::AttemptHistory::default())
        );
    }
    let stats = rig.store().stats(&usual_type()).await.unwrap();
    assert_eq!((stats.scheduled, stats.dead), (2, 0));
}

pub async fn replace_does_not_touch_a_running_task(rig: &Rig) {
    let task = rig.run("running").await;
    let state = TaskState::Running;
    let outcome = rig.submit(other_request(state).replace()).await;
    assert_eq!(outcome, SubmitOutcome::Conflict { state });
    assert_eq!(
        rig.settle(&task.lock, AttemptEnd::Done).await,
        SettleOutcome::Settled
    );
}

pub async fn an_ended_id_is_free_for_another_request(rig: &Rig) {
    for state in ENDED {
        for job in [
            other_request(state),
            other_request(state).keep().header("till", "1"),
        ] {
            bring_again(rig, state).await;
            rig.accept(job).await;
            let task = rig.claim_one().await;
            assert_eq!((task.attempt, task.lock.id.as_str()), (1, state.as_str()));
            assert!(task.headers.contains_key("shop"));
            rig.settle(&task.lock, AttemptEnd::Done).await;
        }
    }
}

/// Submits different requests with the ids of ended tasks, in one batch, then lets them die and
/// discards them: the old records of the ids must not reappear.
async fn use_again(rig: &Rig, ids: &[&str]) {
    let mut batch = Vec::new();
    for id in ids {
        batch.push(rig.task(job(id).header("shop", "bonn")).await);
    }
    for outcome in rig.store().submit(batch).await {
        assert!(matches!(outcome, Ok(SubmitOutcome::Accepted { .. })));
    }
    for task in rig.claim().await.tasks {
        rig.settled(&task.lock, dead("no such order")).await;
    }
    let (task_type, all) = (usual_type(), DeadFilter::all());
    let discarded = rig.store().discard_dead(&task_type, &all).await;
    assert_eq!(discarded.unwrap().len(), ids.len());
    for id in ids {
        assert_eq!(rig.find(id).await, None);
        rig.accept(job(id)).await;
    }
}

pub async fn an_end_is_forgotten_when_its_id_is_used_again(rig: &Rig) {
    for ids in [&["1"][..], &["2", "3", "4"]] {
        for task in rig.run_more(ids.iter().copied()).await {
            rig.settled(&task.lock, AttemptEnd::Done).await;
        }
        use_again(rig, ids).await;
        rig.run_more([] as [&str; 0]).await;
    }
}

pub async fn ends_are_remembered_whatever_ends_after_them(rig: &Rig) {
    for n in 0..4 {
        let task = rig.run(&format!("{n}-done")).await;
        rig.settled(&task.lock, AttemptEnd::Done).await;
        let cancelled = format!("{n}-cancelled");
        rig.accept(job(&cancelled).after(LONG)).await;
        let _ = rig.cancel(&cancelled).await;
    }
    for n in 0..4 {
        for state in [TaskState::Done, TaskState::Cancelled] {
            assert_eq!(rig.state(&format!("{n}-{state}")).await, Some(state));
        }
    }
}

/// A store may keep its records of ended tasks in parts of different age.
pub async fn an_older_end_is_remembered_and_forgotten_like_a_younger_one(rig: &Rig) {
    let retention = 25 * SHORT;
    let rig = rig.with_retention(retention).await;
    let mut ended_at = rig.now().await;
    for (id, wait) in [("0", 20), ("1", 6), ("2", 0), ("3", 0), ("4", 0)] {
        let task = rig.run(id).await;
        if id == "1" {
            ended_at = rig.now().await;
        }
        rig.settled(&task.lock, AttemptEnd::Done).await;
        rig.pass(wait * SHORT).await;
    }
    for id in ["1", "2", "3", "4"] {
        let state = rig.state(id).await;
        // On a slow machine the retention may be over.
        let is_over = rig.now().await >= ended_at.plus(retention);
        assert!(state == Some(TaskState::Done) || is_over, "{id}: {state:?}");
    }
    use_again(&rig, &["1"]).await;
    rig.finish().await;
}

/// Brings a task into an ended state, even if its id has ended before.
async fn bring_again(rig: &Rig, state: TaskState) {
    rig.store()
        .purge(&usual_type(), TaskState::Done)
        .await
        .unwrap();
    bring(rig, state).await;
}

pub async fn replace_runs_the_same_request_again_once_it_has_ended(rig: &Rig) {
    for state in ENDED {
        bring(rig, state).await;
        rig.accept(same_request(state).replace()).await;
        let task = rig.claim_one().await;
        rig.settle(&task.lock, AttemptEnd::Done).await;
    }
}

pub async fn an_ended_request_is_known_whatever_its_time(rig: &Rig) {
    bring(rig, TaskState::Done).await;
    let state = TaskState::Done;
    let outcome = rig.submit(same_request(state).after(LONG)).await;
    assert_eq!(outcome, SubmitOutcome::AlreadyExists { state });
    rig.claims_nothing().await;
}

pub async fn without_a_retention_an_ended_id_is_free_at_once(rig: &Rig) {
    let rig = rig.with_retention(millis(0)).await;
    for state in ENDED {
        let task = rig.run(state.as_str()).await;
        let end = if state == TaskState::Expired {
            AttemptEnd::Expired
        } else {
            AttemptEnd::Done
        };
        rig.settle(&task.lock, end).await;
        assert_eq!(rig.find(state.as_str()).await, None);
        rig.accept(same_request(state).after(LONG)).await;
        if state == TaskState::Cancelled {
            let _ = rig.cancel(state.as_str()).await;
            rig.accept(same_request(state).after(LONG)).await;
        }
    }
    rig.finish().await;
}

pub async fn after_the_retention_an_ended_id_is_free(rig: &Rig) {
    let rig = rig.with_retention(SHORT).await;
    let task = rig.run("1").await;
    rig.settle(&task.lock, AttemptEnd::Done).await;
    rig.pass(SHORT).await;
    assert_eq!(rig.find("1").await, None);
    rig.accept(job("1")).await;
    assert_eq!(rig.claim_one().await.attempt, 1);
    rig.finish().await;
}
