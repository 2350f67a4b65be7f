//! The limit on scheduled tasks: new tasks beyond it are refused, and nothing else is.

use delayq_core::operate::{DeadFilter, TypeSettings, TypeStats};
use delayq_core::store::{AttemptEnd, SubmitOutcome};
use delayq_core::{DelayQueueJob, Error, Result, TaskState, TaskType};

use super::rig::{LONG, Rig, dead, job, release, retry, usual_type};

pub(super) async fn bound(rig: &Rig, most: Option<u64>) {
    let settings = TypeSettings::default().max_pending(most);
    let configured = rig.store().configure_type(&usual_type(), &settings).await;
    configured.unwrap();
}

async fn stats(rig: &Rig) -> TypeStats {
    rig.store().stats(&usual_type()).await.unwrap()
}

pub(super) async fn try_submit(rig: &Rig, job: DelayQueueJob) -> Result<SubmitOutcome> {
    let task = rig.task(job).await;
    rig.store().submit(vec![task]).await.remove(0)
}

pub(super) fn full(pending: u64, limit: u64) -> Error {
    Error::QueueFull {
        task_type: usual_type().to_string(),
        pending,
        limit,
    }
}

pub async fn tasks_beyond_the_bound_are_refused_and_counted(rig: &Rig) {
    bound(rig, Some(2)).await;
    rig.accept(job("1")).await;
    rig.accept(job("2").after(LONG)).await;
    let refusal = try_submit(rig, job("3")).await.unwrap_err();
    assert_eq!(refusal, full(2, 2));
    assert!(refusal.is_transient() && !refusal.is_indeterminate());
    assert_eq!(rig.find("3").await, None);
    let stats = stats(rig).await;
    assert_eq!(
        (stats.scheduled, stats.max_pending, stats.refused),
        (2, Some(2), 1)
    );
}

pub async fn a_place_below_the_bound_is_free_for_the_next_task(rig: &Rig) {
    bound(rig, Some(2)).await;
    rig.accept(job("1")).await;
    rig.accept(job("2").after(LONG)).await;
    rig.claim_one().await;
    rig.accept(job("3").after(LONG)).await;
    assert_eq!(try_submit(rig, job("4")).await, Err(full(2, 2)));
    let _ = rig.cancel("2").await;
    rig.accept(job("4")).await;
}

pub async fn a_batch_is_accepted_up_to_the_bound(rig: &Rig) {
    bound(rig, Some(3)).await;
    rig.accept(job("known").after(LONG)).await;
    let mut batch = Vec::new();
    for id in ["a", "b", "c", "d"] {
        batch.push(rig.task(job(id)).await);
    }
    batch.push(rig.task(job("known").after(LONG)).await);
    let outcomes = rig.store().submit(batch).await;
    assert!(
        matches!(outcomes[0], Ok(SubmitOutcome::Accepted { .. })),
        "{outcomes:?}"
    );
    assert!(
        matches!(outcomes[1], Ok(SubmitOutcome::Accepted { .. })),
        "{outcomes:?}"
    );
    assert_eq!(outcomes[2..4], [Err(full(3, 3)), Err(full(3, 3))]);
    let state = TaskState::Scheduled;
    assert_eq!(outcomes[4], Ok(SubmitOutcome::AlreadyExists { state }));
    assert_eq!(stats(rig).await.refused, 2);
}

pub async fn an_id_that_is_taken_is_not_refused_by_the_bound(rig: &Rig) {
    rig.accept(job("1").after(LONG)).await;
    rig.bring("dead", TaskState::Dead).await;
    bound(rig, Some(1)).await;
    let state = TaskState::Scheduled;
    assert_eq!(
        rig.submit(job("1").after(LONG)).await,
        SubmitOutcome::AlreadyExists { state }
    );
    assert_eq!(
        rig.submit(job("1")).await,
        SubmitOutcome::Conflict { state }
    );
    assert_eq!(
        rig.submit(job("1").keep()).await,
        SubmitOutcome::AlreadyExists { state }
    );
    for id in ["1", "dead"] {
        let replaced = rig.submit(job(id).after(LONG * 2).replace()).await;
        assert!(
            matches!(replaced, SubmitOutcome::Accepted { replaced: true, .. }),
            "{replaced:?}"
        );
    }
    let found = stats(rig).await;
    assert_eq!((found.scheduled, found.refused), (2, 0));
    assert_eq!(try_submit(rig, job("2")).await, Err(full(2, 1)));
}

pub async fn a_dead_task_that_is_replaced_takes_a_place_below_the_bound(rig: &Rig) {
    rig.bring("dead", TaskState::Dead).await;
    bound(rig, Some(1)).await;
    let batch = vec![
        rig.task(job("dead").after(LONG).replace()).await,
        rig.task(job("2").after(LONG)).await,
    ];
    let outcomes = rig.store().submit(batch).await;
    assert!(outcomes[0].is_ok(), "{outcomes:?}");
    assert_eq!(outcomes[1], Err(full(1, 1)));
    assert_eq!(stats(rig).await.scheduled, 1);
}

pub async fn an_ended_task_is_known_though_its_type_is_full(rig: &Rig) {
    let done = rig.run("done").await;
    rig.settled(&done.lock, AttemptEnd::Done).await;
    rig.accept(job("1").after(LONG)).await;
    bound(rig, Some(1)).await;
    let state = TaskState::Done;
    assert_eq!(
        rig.submit(job("done")).await,
        SubmitOutcome::AlreadyExists { state }
    );
    // A different request would be a new task, and so would a repeat of the same one.
    for job in [
        DelayQueueJob::raw(usual_type().as_str(), "else").id("done"),
        job("done").replace(),
    ] {
        assert_eq!(try_submit(rig, job).await, Err(full(1, 1)));
    }
    assert_eq!(
        rig.state("done").await,
        Some(state),
        "a refusal forgets nothing"
    );
    bound(rig, Some(2)).await;
    rig.accept(job("done").header("shop", "bonn").after(LONG))
        .await;
}

pub async fn what_comes_back_is_not_refused_by_the_bound(rig: &Rig) {
    bound(rig, Some(4)).await;
    let tasks = rig.run_more(["retry", "release", "dead"]).await;
    bound(rig, Some(1)).await;
    rig.accept(job("1").after(LONG)).await;
    for task in tasks {
        let end = match task.lock.id.as_str() {
            "retry" => retry(LONG),
            "release" => release(LONG),
            _ => dead("no such order"),
        };
        rig.settled(&task.lock, end).await;
    }
    let (task_type, all) = (usual_type(), DeadFilter::all());
    let requeued = rig.store().requeue_dead(&task_type, &all, LONG);
    assert_eq!(requeued.await.unwrap().len(), 1);
    assert_eq!(stats(rig).await.scheduled, 4);
    assert_eq!(try_submit(rig, job("2")).await, Err(full(4, 1)));
}

pub async fn a_bound_can_be_raised_and_lifted(rig: &Rig) {
    bound(rig, Some(1)).await;
    rig.accept(job("1")).await;
    assert!(try_submit(rig, job("2")).await.is_err());
    bound(rig, Some(2)).await;
    rig.accept(job("2")).await;
    assert!(try_submit(rig, job("3")).await.is_err());
    let unchanged = TypeSettings::default();
    let configured = rig.store().configure_type(&usual_type(), &unchanged).await;
    configured.unwrap();
    assert_eq!(stats(rig).await.max_pending, Some(2));
    bound(rig, None).await;
    rig.accept(job("3")).await;
    let stats = stats(rig).await;
    assert_eq!((stats.max_pending, stats.refused), (None, 2));
}

pub async fn a_bound_of_nothing_closes_a_type_for_new_tasks(rig: &Rig) {
    bound(rig, Some(0)).await;
    assert_eq!(try_submit(rig, job("1")).await, Err(full(0, 0)));
}

pub async fn a_bound_concerns_one_type_and_lists_none(rig: &Rig) {
    bound(rig, Some(1)).await;
    assert_eq!(rig.store().types().await, Ok(Vec::new()));
    rig.accept(job("1")).await;
    let other = TaskType::new("gift.refund").unwrap();
    for id in ["1", "2"] {
        rig.accept(DelayQueueJob::raw(other.as_str(), "m").id(id))
            .await;
    }
    assert_eq!(rig.store().stats(&other).await.unwrap().max_pending, None);
}

pub async fn submits_at_the_same_time_keep_the_bound(rig: &Rig) {
    bound(rig, Some(5)).await;
    let mut batches = Vec::new();
    for batch in 0..4 {
        let mut tasks = Vec::new();
        for n in 0..3 {
            tasks.push(rig.task(job(&format!("{batch}-{n}"))).await);
        }
        batches.push(rig.store().submit(tasks));
    }
    let mut batches = batches.into_iter();
    let mut next = || batches.next().unwrap();
    let (a, b, c, d) = tokio::join!(next(), next(), next(), next());
    let accepted = [a, b, c, d].into_iter().flatten().flatten();
    assert_eq!(accepted.count(), 5);
    let stats = stats(rig).await;
    assert_eq!((stats.scheduled, stats.refused), (5, 7));
}
