//! Cancels made at the same time, which share calls.

use std::sync::Arc;
use std::time::Duration;

use delayq_core::store::{AttemptEnd, CancelOutcome, ClaimRequest, Settlement};
use delayq_core::{Operate, Store, TaskState};
use delayq_tests::redis_server::{Persistence, RedisServer};

use super::{accept, claim, id, job, open, raw, run, submit, task_type, whole};

/// How often a client had a script run.
async fn calls(server: &RedisServer) -> usize {
    let stats: String = run(&mut raw(server).await, "INFO commandstats").await;
    let calls = stats.lines().find_map(|line| {
        let calls = line.strip_prefix("cmdstat_evalsha:calls=")?;
        calls.split(',').next()?.parse().ok()
    });
    calls.unwrap_or(0)
}

#[tokio::test]
async fn each_learns_what_became_of_its_own_task_and_many_share_a_call() {
    let server = RedisServer::start(Persistence::None, &[]);
    let store = open(&server).await;
    accept(&store, job("running")).await;
    accept(&store, job("done")).await;
    let claimed = claim(&store).await.unwrap().tasks;
    for task in claimed {
        if task.lock.id == id("done") {
            let end = Settlement::new(task.lock, AttemptEnd::Done);
            store.settle(&whole(), vec![end]).await.unwrap();
        }
    }
    let again = job("running").header("n", "2").again_if_running();
    submit(&store, again).await.unwrap();
    let waiting: Vec<String> = (0..300).map(|n| format!("waits-{n}")).collect();
    for name in &waiting {
        let job = job(name).after(Duration::from_hours(1));
        accept(&store, job).await;
    }
    run::<()>(&mut raw(&server).await, "CONFIG RESETSTAT").await;

    let others = ["running", "done", "nobody", "waits-7", "running"];
    let names = waiting.iter().map(String::as_str).chain(others);
    let store = Arc::new(store);
    let cancels: Vec<_> = names
        .map(|name| {
            let (store, id) = (Arc::clone(&store), id(name));
            tokio::spawn(async move { store.cancel(&task_type(), &id).await })
        })
        .collect();
    let mut outcomes = Vec::new();
    for cancel in cancels {
        outcomes.push(cancel.await.unwrap().unwrap());
    }
    let (all, rest) = outcomes.split_at(waiting.len());
    assert_eq!(all, [CancelOutcome::Cancelled; 300]);
    let expected = [
        CancelOutcome::Running,
        CancelOutcome::Finished(TaskState::Done),
        CancelOutcome::NotFound,
        // The second cancel of one id comes after the first.
        CancelOutcome::Finished(TaskState::Cancelled),
        CancelOutcome::Running,
    ];
    assert_eq!(rest, expected);
    let calls = calls(&server).await;
    assert!((3..30).contains(&calls), "{calls} calls for 305 cancels");

    let stats = store.stats(&task_type()).await.unwrap();
    assert_eq!((stats.scheduled, stats.running), (0, 1));
    assert_eq!((stats.totals.cancelled, stats.totals.done), (300, 1));
    assert_eq!(stats.remembered, 301);
    let info = store
        .find(&task_type(), &id("running"))
        .await
        .unwrap()
        .unwrap();
    assert!(info.cancel_requested && info.again_at.is_none(), "{info:?}");
    let report = store.audit(&task_type(), false).await.unwrap();
    assert_eq!(report.problems, []);
    let request = ClaimRequest::new(10, Duration::from_secs(30), stats.now);
    assert!(
        store
            .claim(&whole(), &request)
            .await
            .unwrap()
            .tasks
            .is_empty()
    );
}
