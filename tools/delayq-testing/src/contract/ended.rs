//! Ended tasks: listed, counted, and forgotten early if there are too many.

use delayq_core::TaskState::{Cancelled, Dead, Done, Expired};
use delayq_core::operate::{DeadFilter, TypeStats};
use delayq_core::store::{AttemptEnd, Settlement, SubmitOutcome};
use delayq_core::{ClaimedTask, DelayQueueJob, Lock, TaskInfo, TaskState, millis};

use super::rig::{LONG, Rig, TYPE, dead, ids, job, retry, usual_type};

async fn stats(rig: &Rig) -> TypeStats {
    rig.store().stats(&usual_type()).await.unwrap()
}

async fn settle(rig: &Rig, tasks: Vec<ClaimedTask>, end: AttemptEnd) {
    let settle = |task: ClaimedTask| Settlement::new(task.lock, end.clone());
    rig.settle_all(tasks.into_iter().map(settle).collect())
        .await;
}

/// Every ended task in `state`, page by page.
async fn listed(rig: &Rig, state: TaskState, limit: usize) -> Vec<TaskInfo> {
    let (mut tasks, mut cursor) = (Vec::new(), None);
    loop {
        let page = rig
            .store()
            .list(&usual_type(), state, cursor.as_ref(), limit)
            .await
            .unwrap();
        assert!(page.tasks.len() <= limit);
        tasks.extend(page.tasks);
        cursor = page.next;
        if cursor.is_none() {
            return tasks;
        }
    }
}

pub async fn ended_tasks_are_listed_page_by_page_the_latest_first(rig: &Rig) {
    for (state, count) in [(Done, 650), (Expired, 12), (Cancelled, 12)] {
        let names: Vec<String> = (0..count).map(|n| format!("{state}-{n}")).collect();
        for part in names.chunks(130) {
            let tasks = rig.run_more(part.to_vec()).await;
            let end = match state {
                Done => AttemptEnd::Done,
                Expired => AttemptEnd::Expired,
                _ => {
                    for name in part {
                        let _ = rig.cancel(name).await;
                    }
                    retry(LONG)
                }
            };
            settle(rig, tasks, end).await;
        }
        let mut ended = Vec::new();
        for name in &names {
            ended.push(rig.info(name).await);
        }
        ended.sort_by(|a, b| (b.at, &b.id).cmp(&(a.at, &a.id)));
        assert_eq!(listed(rig, state, 100).await, ended);
    }
}

pub async fn what_is_forgotten_is_not_listed(rig: &Rig) {
    let rig = rig.with_retention(millis(1)).await;
    rig.accept(job("1").after(LONG)).await;
    let _ = rig.cancel("1").await;
    rig.pass(millis(2)).await;
    assert_eq!(listed(&rig, Cancelled, 9).await, []);
    rig.finish().await;
}

pub async fn what_has_ended_is_counted_by_how_it_did(rig: &Rig) {
    for (n, state) in [Done, Cancelled, Expired, Dead].into_iter().enumerate() {
        rig.bring(&n.to_string(), state).await;
    }
    let tried = rig.run("tried").await;
    rig.settled(&tried.lock, retry(millis(0))).await;
    let again = rig.claim_one().await;
    rig.settled(&again.lock, AttemptEnd::Done).await;
    // A repeat, and a lost lock: no task ends, and none fails.
    rig.settled(&again.lock, AttemptEnd::Done).await;
    let _ = rig.settle(&tried.lock, dead("too late")).await;
    rig.accept(job("late").expires_after(millis(1))).await;
    rig.pass(millis(2)).await;
    assert_eq!(rig.claim().await.ended.len(), 1);
    rig.accept(job("unpaid").after(LONG)).await;
    let _ = rig.cancel("unpaid").await;
    let all = DeadFilter::all();
    let task_type = usual_type();
    let requeued = rig.store().requeue_dead(&task_type, &all, millis(0)).await;
    assert_eq!(ids(&requeued.unwrap()), ["3"]);
    let requeued = rig.claim_one().await;
    rig.settled(&requeued.lock, dead("no such order")).await;
    let stats = stats(rig).await;
    let totals = stats.totals;
    let ended = (totals.done, totals.dead, totals.cancelled, totals.expired);
    assert_eq!((ended, totals.failed), ((2, 2, 2, 2), 3));
    assert_eq!(stats.remembered, 6);
    let retained = stats.now.minus(rig.options().retention);
    assert_eq!(stats.remembered_since, Some(retained));
}

pub async fn of_too_many_ends_the_oldest_are_forgotten_and_the_stats_say_since_when(rig: &Rig) {
    let rig = rig.with_ends(LONG, 8).await;
    let mut ended = Vec::new();
    for n in 0..200 {
        let name = n.to_string();
        rig.accept(job(&name).after(LONG)).await;
        let _ = rig.cancel(&name).await;
        if let Some(info) = rig.find(&name).await {
            ended.push((name, info.at));
        }
    }
    let stats = stats(&rig).await;
    let since = stats.remembered_since.unwrap();
    assert!(since > stats.now.minus(LONG));
    let buckets = rig.buckets(&usual_type()).await.len() as u64;
    assert!((8..=16 * buckets).contains(&stats.remembered), "{stats:?}");
    assert_eq!(stats.totals.cancelled, 200);
    let mut forgotten = 0;
    for (name, at) in ended {
        let is_known = rig.find(&name).await.is_some();
        assert!(is_known || at <= since, "{name} ended at {at}, {stats:?}");
        forgotten += usize::from(!is_known);
    }
    assert!(forgotten > 0);
    rig.finish().await;
}

async fn note(rig: &Rig, lock: &Lock, error: &str) -> bool {
    let bucket = rig.origin(lock).await;
    let noted = rig.store().note_failure(&bucket, lock, error).await;
    noted.unwrap()
}

pub async fn a_failure_is_noted_with_the_end_of_its_task(rig: &Rig) {
    let error = "no route to häußer\n\0 %s";
    let once = rig.run("once").await;
    assert!(!note(rig, &once.lock, error).await, "it runs");
    rig.settled(&once.lock, AttemptEnd::Done).await;
    let stale = Lock {
        fence: once.lock.fence + 1,
        ..once.lock.clone()
    };
    assert!(!note(rig, &stale, "of another lock").await);
    assert!(note(rig, &once.lock, error).await);
    assert!(!note(rig, &once.lock, "a second one").await);
    let info = rig.info("once").await;
    assert_eq!((info.state, info.attempt), (Done, 1));
    assert_eq!(info.history.last_error.as_deref(), Some(error));
    assert_eq!(listed(rig, Done, 9).await, [info]);
    let found = stats(rig).await;
    assert_eq!((found.totals.failed, found.remembered), (1, 1));
    // The end has not changed: the request and the settlement are recognised.
    rig.settled(&once.lock, AttemptEnd::Done).await;
    let repeated = rig.submit(job("once")).await;
    assert_eq!(repeated, SubmitOutcome::AlreadyExists { state: Done });
    let long = rig.run("long").await;
    rig.settled(&long.lock, AttemptEnd::Done).await;
    assert!(note(rig, &long.lock, &"é".repeat(2_000)).await);
    let cut = rig.info("long").await.history.last_error.unwrap();
    assert!((199..=1_024).contains(&cut.len()) && cut.chars().all(|char| char == 'é'));
    let another = DelayQueueJob::raw(TYPE, "another").id("long");
    rig.accept(another).await;
    assert!(!note(rig, &long.lock, "of an earlier task").await);
    assert_eq!(rig.info("long").await.history.last_error, None);
    assert_eq!(rig.store().purge(&usual_type(), Done).await, Ok(1));
    assert!(!note(rig, &once.lock, "forgotten").await);
    // A note does not count as an end. Ends in the same millisecond are ordered by id.
    let rig = rig.with_ends(LONG, 8).await;
    let names: Vec<_> = (0..24).map(|n| format!("{n:02}")).collect();
    for (n, name) in names.iter().enumerate() {
        let task = rig.run(name).await;
        rig.settled(&task.lock, AttemptEnd::Done).await;
        assert!(note(&rig, &task.lock, error).await);
        for known in names.iter().take(n + 1).rev().take(8) {
            assert!(rig.find(known).await.is_some(), "{known} after {name}");
        }
    }
    rig.finish().await;
}
