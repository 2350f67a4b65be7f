//! Requests to run again.

use delayq_core::store::{AttemptEnd, CancelOutcome, EndCause, SettleOutcome, SubmitOutcome};
use delayq_core::{AttemptHistory, DelayQueueJob, TaskState, Timestamp};

use super::repeat::only_its_repeat_is_settled;
use super::rig::{LONG, Rig, SHORT, TYPE, dead, job, release, retry, usual_type};

/// A request to run `id` again, with number `n`.
fn again(id: &str, n: u32) -> DelayQueueJob {
    job(id).header("n", n.to_string()).again_if_running()
}

/// Sends a job that has to wait for the end of its task. Returns its due time.
async fn waits(rig: &Rig, job: DelayQueueJob) -> Timestamp {
    let id = job.task_id().to_owned();
    let outcome = rig.submit(job).await;
    let SubmitOutcome::RunsAgain { due_at } = outcome else {
        panic!("{outcome:?}");
    };
    assert_eq!(rig.info(&id).await.again_at, Some(due_at));
    due_at
}

/// Asserts that the task is now that of request `n`, without a history, and that no request waits.
async fn is_request(rig: &Rig, id: &str, n: u32) {
    let info = rig.info(id).await;
    assert_eq!(
        (info.state, info.attempt, info.again_at),
        (TaskState::Scheduled, 0, None)
    );
    assert_eq!(info.headers["n"], n.to_string());
    assert_eq!(info.history, AttemptHistory::default());
}

pub async fn a_running_task_runs_again_when_it_is_done(rig: &Rig) {
    let first = rig.run("1").await;
    let due_at = waits(rig, again("1", 2)).await;
    rig.claims_nothing().await;
    let info = rig.info("1").await;
    assert_eq!((info.state, info.headers.len()), (TaskState::Running, 0));
    let (task_type, state) = (usual_type(), TaskState::Running);
    let running = rig.store().list(&task_type, state, None, 9).await;
    assert_eq!(running.unwrap().tasks[0].again_at, Some(due_at));
    let before = rig.now().await;
    rig.settled(&first.lock, AttemptEnd::Done).await;
    is_request(rig, "1", 2).await;
    let second = rig.claim_one().await;
    assert_eq!((second.attempt, &second.headers["n"][..]), (1, "2"));
    assert!(second.lock.fence > first.lock.fence && second.due_at >= before);
    // Repeated, as if the answer to the settlement had been lost.
    assert_eq!(
        rig.settle(&first.lock, AttemptEnd::Done).await,
        SettleOutcome::Settled
    );
    assert_eq!(rig.state("1").await, Some(TaskState::Running));
    rig.settled(&second.lock, AttemptEnd::Done).await;
    assert_eq!(rig.state("1").await, Some(TaskState::Done));
}

pub async fn the_same_request_runs_a_running_or_ended_task_again(rig: &Rig) {
    let task = rig.run("1").await;
    waits(rig, job("1").again_if_running()).await;
    rig.settled(&task.lock, AttemptEnd::Done).await;
    let task = rig.claim_one().await;
    rig.settled(&task.lock, AttemptEnd::Done).await;
    rig.accept(job("1").keep().again_if_running()).await;
}

pub async fn a_task_runs_again_after_each_end_and_not_before_a_retry(rig: &Rig) {
    for (id, end) in [("1", dead("no such order")), ("2", AttemptEnd::Expired)] {
        let mut task = rig.run(id).await;
        waits(rig, again(id, 2)).await;
        for wait in [retry(LONG), release(LONG)] {
            rig.settled(&task.lock, wait).await;
            assert!(rig.info(id).await.again_at.is_some());
            rig.run_now(id).await;
            task = rig.claim_one().await;
        }
        assert_eq!((task.attempt, task.headers.len()), (2, 0));
        rig.settled(&task.lock, end.clone()).await;
        is_request(rig, id, 2).await;
        only_its_repeat_is_settled(rig, &task.lock, &end).await;
        let task = rig.claim_one().await;
        rig.settled(&task.lock, AttemptEnd::Done).await;
    }
}

pub async fn what_runs_again_has_its_own_time_expiry_and_message(rig: &Rig) {
    let large = vec![7; 40_000];
    let request = || DelayQueueJob::raw(TYPE, large.clone()).again_if_running();
    let tasks = rig.run_more(["1", "2"]).await;
    let later = waits(rig, request().id("1").after(LONG).expires_after(SHORT)).await;
    let sooner = waits(rig, request().id("2").after(SHORT)).await;
    let submitted_at = rig.now().await;
    rig.pass(2 * SHORT).await;
    for task in tasks {
        rig.settled(&task.lock, AttemptEnd::Done).await;
    }
    let info = rig.info("1").await;
    assert_eq!((info.at, info.expires_at), (later, Some(later.plus(SHORT))));
    assert!(info.submitted_at.unwrap() <= submitted_at.plus(std::time::Duration::from_millis(1)));
    let task = rig.claim_one().await;
    assert_eq!((task.lock.id.as_str(), task.message), ("2", large));
    // The task was not late: it had to wait for the end of the run.
    assert!(task.due_at >= sooner.plus(SHORT / 2));
}

pub async fn the_last_request_counts_and_with_keep_the_first(rig: &Rig) {
    let task = rig.run("1").await;
    waits(rig, again("1", 2)).await;
    waits(rig, again("1", 3).replace()).await;
    let due_at = waits(rig, again("1", 4).after(SHORT)).await;
    assert_eq!(waits(rig, again("1", 5).keep()).await, due_at);
    rig.settled(&task.lock, AttemptEnd::Done).await;
    is_request(rig, "1", 4).await;
    // The task is scheduled now, so the rule for an existing id applies.
    let state = TaskState::Scheduled;
    assert_eq!(
        rig.submit(again("1", 5)).await,
        SubmitOutcome::Conflict { state }
    );
    assert_eq!(
        rig.submit(again("1", 5).keep()).await,
        SubmitOutcome::AlreadyExists { state }
    );
}

pub async fn debounced_requests_share_their_longest_wait(rig: &Rig) {
    let task = rig.run("1").await;
    let first = waits(rig, again("1", 2).debounce(LONG, LONG + SHORT)).await;
    rig.pass(2 * SHORT).await;
    let last = waits(rig, again("1", 3).debounce(LONG, LONG + SHORT)).await;
    assert_eq!(last, first.plus(SHORT));
    rig.settled(&task.lock, AttemptEnd::Done).await;
    is_request(rig, "1", 3).await;
    // It keeps waiting as a debounced task.
    rig.submit(again("1", 4).debounce(LONG, LONG + SHORT)).await;
    assert_eq!(rig.info("1").await.at, last);
}

pub async fn a_cancel_drops_the_request_and_a_later_one_counts(rig: &Rig) {
    let task = rig.run("1").await;
    waits(rig, again("1", 2)).await;
    assert_eq!(rig.cancel("1").await, CancelOutcome::Running);
    assert_eq!(rig.info("1").await.again_at, None);
    rig.settled(&task.lock, release(LONG)).await;
    assert_eq!(rig.state("1").await, Some(TaskState::Cancelled));
    let task = rig.run("2").await;
    assert_eq!(rig.cancel("2").await, CancelOutcome::Running);
    waits(rig, again("2", 2)).await;
    rig.settled(&task.lock, release(LONG)).await;
    is_request(rig, "2", 2).await;
    let task = rig.claim_one().await;
    waits(rig, again("2", 3)).await;
    rig.settled(&task.lock, retry(LONG)).await;
    assert_eq!(rig.cancel("2").await, CancelOutcome::Cancelled);
    assert_eq!(rig.state("2").await, Some(TaskState::Cancelled));
    rig.claims_nothing().await;
}

pub async fn a_claim_that_ends_a_task_runs_it_again(rig: &Rig) {
    let lost = rig.run("lost").await;
    waits(rig, again("lost", 2).after(LONG)).await;
    let stopped = rig.run("stopped").await;
    let _ = rig.cancel("stopped").await;
    waits(rig, again("stopped", 2).after(LONG)).await;
    rig.expire(&lost.lock).await;
    rig.expire(&stopped.lock).await;
    let poison = rig.request().await.max_lock_expiries(1);
    let claimed = rig.claim_as(&poison).await;
    assert_eq!(claimed.tasks, []);
    let mut ended: Vec<_> = claimed.ended.iter().collect();
    ended.sort_by_key(|end| end.id.clone());
    let ended: Vec<_> = ended
        .iter()
        .map(|end| (end.id.as_str(), end.cause))
        .collect();
    let expected = [("lost", EndCause::Poison), ("stopped", EndCause::Cancelled)];
    assert_eq!(ended, expected);
    for id in ["lost", "stopped"] {
        is_request(rig, id, 2).await;
    }
    assert_eq!(
        rig.settle(&lost.lock, AttemptEnd::Done).await,
        SettleOutcome::LockLost
    );
    let stats = rig.store().stats(&usual_type()).await.unwrap();
    assert_eq!((stats.scheduled, stats.running, stats.dead), (2, 0, 0));
}

pub async fn a_task_that_expires_between_two_attempts_runs_again(rig: &Rig) {
    let expires_at = rig.now().await.plus(SHORT);
    rig.accept(job("1").expires_at(expires_at)).await;
    let Some(task) = rig.claim().await.tasks.pop() else {
        // On a slow machine it may have expired before the first attempt.
        assert_eq!(rig.state("1").await, Some(TaskState::Expired));
        return;
    };
    waits(rig, again("1", 2).after(LONG)).await;
    rig.settled(&task.lock, retry(SHORT)).await;
    rig.reach(rig.info("1").await.at).await;
    let claimed = rig.claim().await;
    assert_eq!(claimed.tasks, []);
    assert_eq!(claimed.ended[0].cause, EndCause::Expired);
    is_request(rig, "1", 2).await;
    assert_eq!(
        rig.settle(&task.lock, retry(SHORT)).await,
        SettleOutcome::Settled
    );
}

pub async fn a_task_that_is_replaced_or_purged_takes_its_request_with_it(rig: &Rig) {
    for id in ["replaced", "purged"] {
        let task = rig.run(id).await;
        waits(rig, again(id, 2)).await;
        rig.settled(&task.lock, retry(LONG)).await;
    }
    rig.submit(job("replaced").replace()).await;
    let task = rig.claim_one().await;
    rig.settled(&task.lock, AttemptEnd::Done).await;
    assert_eq!(rig.state("replaced").await, Some(TaskState::Done));
    let task_type = usual_type();
    let purged = rig.store().purge(&task_type, TaskState::Scheduled).await;
    assert_eq!(purged.unwrap(), 1);
    let task = rig.run("purged").await;
    assert_eq!(rig.info("purged").await.again_at, None);
    rig.settled(&task.lock, AttemptEnd::Done).await;
    rig.claims_nothing().await;
}

pub async fn requests_of_a_batch_are_kept_apart(rig: &Rig) {
    let ids: Vec<String> = (0..40).map(|n| format!("{n:02}")).collect();
    let tasks = rig.run_more(&ids).await;
    let mut batch = Vec::new();
    for id in &ids {
        batch.push(rig.task(again(id, 2)).await);
    }
    for outcome in rig.store().submit(batch).await {
        assert!(matches!(outcome, Ok(SubmitOutcome::RunsAgain { .. })));
    }
    let (odd, even): (Vec<_>, Vec<_>) = tasks.into_iter().partition(|task| task.lock.fence % 2 > 0);
    for tasks in [odd, even] {
        let ends = tasks
            .iter()
            .map(|task| delayq_core::store::Settlement::new(task.lock.clone(), AttemptEnd::Done));
        for outcome in rig.settle_all(ends.collect()).await {
            assert_eq!(outcome, SettleOutcome::Settled);
        }
    }
    for id in &ids {
        is_request(rig, id, 2).await;
    }
}
