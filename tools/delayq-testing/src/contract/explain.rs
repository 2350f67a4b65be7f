//! Queries explain a task: its holder and start, its last errors, and what it waits for.

use std::time::Duration;

use delayq_core::operate::{DeadFilter, TypeSettings};
use delayq_core::presence::InstanceId;
use delayq_core::store::AttemptEnd;
use delayq_core::task::{MAX_PAST_ERROR_BYTES, MAX_PAST_ERRORS, WaitsFor};
use delayq_core::{ClaimedTask, FleetLimits, Rate, TaskInfo, TaskState, Timestamp, When};

use super::rig::{LONG, Rig, SHORT, dead, id, job, release, retry, usual_type};
use super::settings::configure;

async fn waits_for(rig: &Rig, expected: WaitsFor) {
    let info = rig.info("1").await;
    assert_eq!(info.waits_for, Some(expected), "{info:?}");
    assert_eq!((info.started_at, info.holder), (None, None));
}

/// Runs the task `1` now.
async fn claim_by(rig: &Rig, holder: Option<&InstanceId>) -> ClaimedTask {
    if rig.state("1").await == Some(TaskState::Scheduled) {
        rig.run_now("1").await;
    }
    let mut request = rig.request().await;
    request.holder = holder.cloned();
    let claimed = rig.claim_as(&request).await;
    assert_eq!(claimed.ids(), ["1"]);
    claimed.tasks[0].clone()
}

/// The errors of the task `1`, newest first.
async fn errors(rig: &Rig) -> Vec<(u32, String)> {
    let errors = rig.info("1").await.errors;
    let times: Vec<_> = errors.iter().map(|error| error.at).collect();
    assert!(times.iter().rev().is_sorted(), "{errors:?}");
    assert!(times.first() <= Some(&rig.now().await), "{errors:?}");
    let shown = |error: &delayq_core::PastError| (error.attempt, error.error.clone());
    errors.iter().map(shown).collect()
}

pub async fn a_scheduled_task_says_what_it_waits_for(rig: &Rig) {
    rig.bring("0", TaskState::Dead).await;
    rig.accept(job("1").after(LONG)).await;
    waits_for(rig, WaitsFor::Delay).await;
    rig.run_now("1").await;
    waits_for(rig, WaitsFor::Claim).await;
    let end = rig.now().await.plus(LONG);
    for until in [None, Some(end)] {
        rig.store().pause(&usual_type(), until).await.unwrap();
        waits_for(rig, WaitsFor::Pause { until }).await;
    }
    rig.store().resume(&usual_type()).await.unwrap();
    let ends = [
        (release(LONG), WaitsFor::Release),
        (retry(LONG), WaitsFor::Retry),
        (release(LONG), WaitsFor::Release),
        (retry(LONG), WaitsFor::Retry),
    ];
    for (end, expected) in ends {
        let task = claim_by(rig, None).await;
        let asked = rig.info("1").await.due_at;
        assert!(
            asked.is_some_and(|due_at| due_at <= task.due_at),
            "{asked:?}"
        );
        rig.settled(&task.lock, end).await;
        waits_for(rig, expected).await;
        let info = rig.info("1").await;
        assert!(info.due_at == asked && info.at > task.due_at, "{info:?}");
    }
    let _ = rig.reschedule("1", When::After(LONG)).await;
    waits_for(rig, WaitsFor::Delay).await;
    let task = claim_by(rig, None).await;
    rig.settled(&task.lock, dead("no such order")).await;
    assert_eq!(rig.info("1").await.waits_for, None);
    let both = DeadFilter::Ids(vec![id("0"), id("1")]);
    let requeued = rig.store().requeue_dead(&usual_type(), &both, LONG).await;
    assert_eq!(requeued.map(|ids| ids.len()), Ok(2));
    waits_for(rig, WaitsFor::Requeue).await;
    let info = rig.info("1").await;
    assert_eq!(info.errors[0].error, "no such order");
    let state = TaskState::Scheduled;
    let page = rig.store().list(&usual_type(), state, None, 10).await;
    let listed: Vec<TaskInfo> = page.unwrap().tasks;
    assert_eq!(listed.last(), Some(&info));
    rig.settled(&claim_one_of(rig, "1").await.lock, release(LONG))
        .await;
    waits_for(rig, WaitsFor::Release).await;
}

/// Runs the task now, with any other due tasks.
async fn claim_one_of(rig: &Rig, id: &str) -> ClaimedTask {
    rig.run_now(id).await;
    let claimed = rig.claim().await.tasks;
    let found = claimed.into_iter().find(|task| task.lock.id.as_str() == id);
    found.unwrap_or_else(|| panic!("{id} was not claimed"))
}

pub async fn a_running_task_says_who_runs_it_since_when_and_what_went_wrong_before(rig: &Rig) {
    let (first, second) = (InstanceId::generate(), InstanceId::generate());
    rig.accept(job("1").after(LONG)).await;
    let before = rig.now().await;
    let task = claim_by(rig, Some(&first)).await;
    let after = rig.now().await;
    let info = rig.info("1").await;
    assert_eq!(info.holder.as_deref(), Some(first.short()));
    let started_at = info.started_at.unwrap();
    assert!((before..=after).contains(&started_at), "{before} {info:?}");
    assert_eq!(info.fence, Some(task.lock.fence));
    assert_eq!((info.waits_for, info.errors.len()), (None, 0));
    let state = TaskState::Running;
    let page = rig.store().list(&usual_type(), state, None, 10).await;
    assert_eq!(page.unwrap().tasks, [info]);
    // An extension or a cancel request does not hide them, and an expired lock is not their end.
    rig.expire(&task.lock).await;
    let info = rig.info("1").await;
    assert_eq!(info.holder.as_deref(), Some(first.short()));
    assert_eq!(info.started_at, Some(started_at));
    let task = claim_by(rig, Some(&second)).await;
    let expired = (1, format!("its lock expired, held by {}", first.short()));
    assert_eq!(errors(rig).await, vec![expired.clone()]);
    assert_eq!(rig.info("1").await.history.last_error, None);
    let long = format!("no\nway {}", "\u{e4}".repeat(MAX_PAST_ERROR_BYTES));
    rig.settled(&task.lock, dead(&long)).await;
    let short = format!("no way {}", "\u{e4}".repeat(MAX_PAST_ERROR_BYTES / 2 - 4));
    assert_eq!(errors(rig).await, [(2, short.clone()), expired.clone()]);
    let found = async |text: &str| {
        let filter = DeadFilter::Matching {
            died_before: None,
            error_contains: Some(text.to_owned()),
            limit: 1,
        };
        let requeued = rig.store().requeue_dead(&usual_type(), &filter, LONG).await;
        requeued.unwrap().len()
    };
    assert_eq!(found("expired").await, 0, "only the last error is searched");
    assert_eq!(found("no\nway").await, 1);
    for nth in 1..=3 {
        let task = claim_by(rig, None).await;
        assert_eq!(rig.info("1").await.holder, None);
        rig.settled(&task.lock, retry(LONG)).await;
        assert_eq!(errors(rig).await[0], (nth, "the shop is closed".to_owned()));
    }
    let last = errors(rig).await;
    assert_eq!(last.len(), MAX_PAST_ERRORS);
    assert_eq!(&last[3..], [(2, short), expired]);
    let task = claim_by(rig, Some(&second)).await;
    let _ = rig.cancel("1").await;
    let info = rig.info("1").await;
    assert_eq!(info.holder.as_deref(), Some(second.short()));
    rig.settled(&task.lock, AttemptEnd::Done).await;
    let info = rig.info("1").await;
    assert_eq!((info.holder, info.errors.len()), (None, 0));
    // The record of the end is the same as before holders were known: the request is recognised.
    let task = rig.task(job("1").after(LONG)).await;
    assert!(!matches!(
        rig.store().submit(vec![task]).await[0],
        Ok(delayq_core::store::SubmitOutcome::Accepted { .. })
    ));
}

/// The facts kept about the last failed attempt: due time, start, holder.
async fn attempted(rig: &Rig) -> (Option<Timestamp>, Option<Timestamp>, Option<String>) {
    let last = rig.info("1").await.errors.remove(0);
    (last.due_at, last.started_at, last.holder)
}

pub async fn a_failed_attempt_keeps_when_it_was_due_and_started_and_who_made_it(rig: &Rig) {
    let holders = [InstanceId::generate(), InstanceId::generate()];
    let short = |nth: usize| Some(holders[nth].short().to_owned());
    rig.accept(job("1").after(LONG)).await;
    let task = claim_by(rig, Some(&holders[0])).await;
    let first = rig.info("1").await;
    assert_eq!(first.attempt_due_at, first.due_at);
    rig.settled(&task.lock, retry(SHORT)).await;
    let waiting = rig.info("1").await;
    assert_eq!(waiting.attempt_due_at, None);
    let expected = (first.due_at, first.started_at, short(0));
    assert_eq!(attempted(rig).await, expected);

    rig.pass(SHORT).await;
    let mut request = rig.request().await;
    request.holder = Some(holders[1].clone());
    let task = rig.claim_as(&request).await.tasks.remove(0);
    let second = rig.info("1").await;
    assert_eq!(second.attempt_due_at, Some(waiting.at));
    rig.expire(&task.lock).await;
    let expired = rig.info("1").await;
    // After a take-over, the attempt was due at the end of the lock.
    let task = claim_by(rig, None).await;
    let third = rig.info("1").await;
    assert_eq!(third.attempt_due_at, Some(expired.at));
    let expected = (Some(waiting.at), second.started_at, short(1));
    assert_eq!(attempted(rig).await, expected);

    // The due time after a release is not kept.
    rig.settled(&task.lock, release(Duration::ZERO)).await;
    let task = rig.claim_one().await;
    let fourth = rig.info("1").await;
    assert_eq!(fourth.attempt_due_at, None);
    rig.settled(&task.lock, dead("no such order")).await;
    assert_eq!(attempted(rig).await, (None, fourth.started_at, None));
    let filter = DeadFilter::Ids(vec![id("1")]);
    let requeued = rig
        .store()
        .requeue_dead(&usual_type(), &filter, Duration::ZERO)
        .await;
    assert_eq!(requeued, Ok(vec![id("1")]));
    let asked = rig.info("1").await.due_at;
    rig.claim_one().await;
    // A requeue in the millisecond of the death cannot be distinguished from the earlier due time.
    let died = rig.info("1").await.errors[0].at;
    let fifth = rig.info("1").await.attempt_due_at;
    assert_eq!(fifth, asked.filter(|asked| *asked > died));
}

pub async fn a_due_task_names_the_limit_that_holds_it(rig: &Rig) {
    let one = FleetLimits {
        concurrency: Some(1),
        rate: None,
    };
    rig.accept(job("0")).await;
    rig.accept(job("1")).await;
    let settings = TypeSettings::default;
    configure(rig, settings().fleet_concurrency(Some(1))).await;
    waits_for(rig, WaitsFor::Claim).await;
    let task = rig.claim_one().await;
    waits_for(rig, WaitsFor::Concurrency).await;
    configure(rig, settings().fleet_concurrency(None)).await;
    let own = rig.request().await.fleet(one);
    assert!(rig.claim_as(&own).await.tasks.is_empty());
    waits_for(rig, WaitsFor::Concurrency).await;
    rig.settled(&task.lock, AttemptEnd::Done).await;
    waits_for(rig, WaitsFor::Claim).await;
    rig.accept(job("00")).await;
    let rate = Some(Rate::per_hour(1));
    configure(rig, settings().fleet_rate(rate)).await;
    waits_for(rig, WaitsFor::Claim).await;
    let _ = rig.reschedule("1", When::After(LONG)).await;
    rig.claim_one().await;
    rig.run_now("1").await;
    waits_for(rig, WaitsFor::Rate).await;
    configure(rig, settings().fleet_rate(None)).await;
    waits_for(rig, WaitsFor::Rate).await;
}
