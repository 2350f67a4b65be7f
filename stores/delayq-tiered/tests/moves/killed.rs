//! Promoters that are killed at every step.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

use delayq_core::operate::{DeadFilter, Operate};
use delayq_core::store::StoreOptions;
use delayq_core::{Store, TaskState, When, millis, seconds};
use delayq_testing::Fault;

use super::stage::{LEAD, Ledger, Stage, accept, broken, id, job, no_fault, now, pause, task_type};

/// The steps of a move, and what a kill leaves of each.
const STEPS: [(&str, &str, Fault); 9] = [
    ("cold", "claim", Fault::CrashBefore),
    ("cold", "claim", Fault::CrashAfter),
    ("cold", "claim", Fault::AnswerLost),
    ("hot", "submit", Fault::CrashBefore),
    ("hot", "submit", Fault::CrashAfter),
    ("hot", "submit", Fault::AnswerLost),
    ("cold", "settle", Fault::CrashBefore),
    ("cold", "settle", Fault::CrashAfter),
    ("cold", "settle", Fault::AnswerLost),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_at_every_step_no_task_is_lost_early_or_run_twice() {
    const TASKS: usize = 4_000;
    let stage = Stage::new(&StoreOptions::default());
    let sender = stage.sender();
    let first = now().plus(seconds(1));
    let mut due = BTreeMap::new();
    let mut batch = Vec::new();
    for n in 0..TASKS {
        let at = first.plus(millis(u64::try_from(n).unwrap()));
        let name = format!("t{n}");
        due.insert(id(&name), at);
        batch.push(job(&name, When::At(at)));
    }
    for outcome in sender.submit(batch).await {
        outcome.unwrap();
    }
    let far = stage.cold.stats(&task_type()).await.unwrap().scheduled;
    assert_eq!(usize::try_from(far), Ok(TASKS), "all of them are far");
    let hot = stage.hot.clone();
    let worker = tokio::spawn(async move {
        let mut ledger = Ledger::default();
        ledger.work_until(&*hot, TASKS).await;
        ledger
    });
    let mut killed = 0;
    for round in 0_u32.. {
        if worker.is_finished() {
            break;
        }
        let step = STEPS[round as usize % STEPS.len()];
        let (plan, calls) = broken(step, round % 4);
        let instance = stage.instance(&plan);
        // The step is reached, or nothing is left to move.
        for _ in 0..300 {
            let has_failed = calls.load(Ordering::Relaxed) > round % 4 + 1;
            if instance.has_crashed() || has_failed || worker.is_finished() {
                break;
            }
            pause(millis(1)).await;
        }
        killed += u32::from(instance.has_crashed());
    }
    let mut ledger = worker.await.unwrap();
    assert!(killed > 9, "{killed} promoters were killed");
    // What is in doubt at the end is cleared up, and nothing of it runs.
    let last = stage.instance(&no_fault());
    let left = async || {
        let stats = stage.cold.stats(&task_type()).await.unwrap();
        stats.scheduled + stats.running
    };
    while left().await > 0 {
        pause(millis(5)).await;
    }
    pause(LEAD).await;
    ledger.work(&*stage.hot).await;
    ledger.check(&due);
    let stats = last.store.stats(&task_type()).await.unwrap();
    assert_eq!((stats.scheduled, stats.running, stats.dead), (0, 0, 0));
}

/// A task that may have run is set aside where hot has forgotten what ended.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_may_have_run_and_is_forgotten_is_set_aside_for_an_operator() {
    let options = StoreOptions {
        retention: millis(50),
        ..StoreOptions::default()
    };
    let stage = Stage::new(&options);
    let (plan, _) = broken(("hot", "submit", Fault::CrashAfter), 0);
    let first = stage.instance(&plan);
    accept(&*first.store, job("a", When::After(millis(500)))).await;
    let mut ledger = Ledger::default();
    ledger.work_until(&*stage.hot, 1).await;
    assert!(first.has_crashed());
    pause(millis(100)).await;
    let find = stage.hot.find(&task_type(), &id("a")).await;
    assert_eq!(find, Ok(None), "hot has forgotten it");
    let next = stage.instance(&no_fault());
    next.store.has_moved_all().await.unwrap();
    let found = next
        .store
        .find(&task_type(), &id("a"))
        .await
        .unwrap()
        .unwrap();
    assert_eq!(found.state, TaskState::Dead);
    let error = found.history.last_error.unwrap();
    assert!(error.contains("may have run already"), "{error}");
    ledger.work(&*stage.hot).await;
    assert_eq!(ledger.0[&id("a")].len(), 1);
    // The operator decides that it runs.
    let all = DeadFilter::all();
    let requeued = next.store.requeue_dead(&task_type(), &all, millis(0)).await;
    assert_eq!(requeued, Ok(vec![id("a")]));
    while ledger.0[&id("a")].len() < 2 {
        ledger.work(&*stage.hot).await;
        pause(millis(1)).await;
    }
}
