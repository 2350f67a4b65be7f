//! Debounced tasks.

use delayq_core::store::{AttemptEnd, SubmitOutcome};
use delayq_core::{AttemptHistory, DelayQueueJob, TaskState};

use super::rig::{LONG, Rig, SHORT, job, retry};

fn debounced(id: &str) -> DelayQueueJob {
    job(id).debounce(LONG, 2 * LONG)
}

/// The outcome of a submit that replaced the task `id`, with its present due time.
async fn replaced(rig: &Rig, id: &str) -> SubmitOutcome {
    SubmitOutcome::Accepted {
        due_at: rig.info(id).await.at,
        replaced: true,
    }
}

pub async fn a_debounced_task_moves_with_each_send_and_keeps_its_first_submit(rig: &Rig) {
    rig.accept(debounced("1")).await;
    let first = rig.info("1").await;
    rig.pass(SHORT).await;
    let outcome = rig.submit(debounced("1").header("version", "2")).await;
    let second = rig.info("1").await;
    assert_eq!(outcome, replaced(rig, "1").await);
    assert!(second.at >= first.at.plus(SHORT));
    assert_eq!(second.submitted_at, first.submitted_at);
    assert_eq!(second.headers["version"], "2");
    rig.pass(SHORT).await;
    // Also for the same request.
    rig.submit(debounced("1").header("version", "2")).await;
    assert!(rig.info("1").await.at >= second.at.plus(SHORT));
}

pub async fn a_debounced_task_waits_no_longer_than_its_longest_wait(rig: &Rig) {
    let ids = ["1", "2", "3"];
    for id in ids {
        rig.accept(job(id).debounce(LONG, LONG)).await;
    }
    let first = rig.info("1").await;
    rig.pass(2 * SHORT).await;
    let mut batch = Vec::new();
    for (id, more) in ids.into_iter().zip([0, 1, 3]) {
        let job = job(id).debounce(LONG, LONG + more * SHORT);
        batch.push(rig.task(job.expires_after(SHORT)).await);
    }
    let outcomes = rig.store().submit(batch).await;
    for ((id, more), outcome) in ids.into_iter().zip([0, 1, 2]).zip(outcomes) {
        let info = rig.info(id).await;
        assert_eq!(outcome, Ok(replaced(rig, id).await));
        let wait = info.at.since(info.submitted_at.unwrap());
        let is_longest = wait == LONG + more * SHORT;
        assert!(is_longest || more == 2 && wait > LONG + SHORT, "{wait:?}");
        assert_eq!(info.expires_at, Some(info.at.plus(SHORT)));
    }
    assert_eq!(rig.info("1").await.submitted_at, first.submitted_at);
    rig.accept(job("4").debounce(SHORT, SHORT)).await;
    rig.pass(2 * SHORT).await;
    // Its wait is over: it is due now, and not in the past.
    let now = rig.now().await;
    rig.submit(job("4").debounce(SHORT, SHORT).header("version", "2"))
        .await;
    let task = rig.claim_one().await;
    assert!(task.due_at >= now && task.headers.contains_key("version"));
    rig.settled(&task.lock, AttemptEnd::Done).await;
}

pub async fn a_tried_or_dead_task_begins_a_new_wait(rig: &Rig) {
    for state in [TaskState::Scheduled, TaskState::Dead] {
        let id = state.as_str();
        if state == TaskState::Dead {
            rig.bring(id, state).await;
        } else {
            let task = rig.run(id).await;
            rig.settled(&task.lock, retry(LONG)).await;
        }
        let before = rig.info(id).await;
        rig.pass(SHORT).await;
        let outcome = rig.submit(job(id).debounce(LONG, LONG)).await;
        assert_eq!(outcome, replaced(rig, id).await);
        let info = rig.info(id).await;
        assert!(info.submitted_at >= before.submitted_at.map(|at| at.plus(SHORT)));
        assert_eq!(info.at.since(info.submitted_at.unwrap()), LONG);
        assert_eq!((info.attempt, info.history), (0, AttemptHistory::default()));
    }
}

pub async fn a_debounced_send_conflicts_with_a_running_task_and_follows_an_ended_one(rig: &Rig) {
    let task = rig.run("1").await;
    let state = TaskState::Running;
    let outcome = rig.submit(debounced("1")).await;
    assert_eq!(outcome, SubmitOutcome::Conflict { state });
    rig.settled(&task.lock, AttemptEnd::Done).await;
    rig.accept(debounced("1")).await;
}
