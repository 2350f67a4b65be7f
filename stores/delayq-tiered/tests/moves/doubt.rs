//! Processes that are slow, die or lose an answer while others have the same task in hand: nothing
//! accepted is lost, and nothing runs twice.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use delayq_core::operate::Operate;
use delayq_core::store::{CancelOutcome, ChangeOutcome, StoreOptions, SubmitOutcome};
use delayq_core::{
    Clock, Error, NewTask, OnConflict, Store, SystemClock, TaskState, TaskType, When, millis,
    seconds,
};
use delayq_testing::Fault;

use super::stage::{
    HORIZON, LATE, LEAD, LOCK, Ledger, Plan, Stage, accept, broken, id, job, no_fault, now, pause,
    task_type,
};

fn replacing(mut task: NewTask) -> NewTask {
    task.on_conflict = OnConflict::Replace;
    task
}

fn with_message(mut task: NewTask, message: &str) -> NewTask {
    task.message = message.as_bytes().to_vec();
    task
}

/// A far task that a promoter moves soon.
fn far(name: &str) -> NewTask {
    job(name, When::After(HORIZON + millis(20)))
}

async fn dead_error(stage: &Stage, name: &str) -> String {
    loop {
        let found = stage.cold.find(&task_type(), &id(name)).await.unwrap();
        match found {
            Some(task) if task.state == TaskState::Dead => return task.history.last_error.unwrap(),
            Some(task) => assert!(!task.state.is_ended(), "{task:?}"),
            None => panic!("it is gone"),
        }
        pause(millis(2)).await;
    }
}

/// Cancels a far task, so that cold remembers it.
async fn cancelled_in_cold(store: &dyn Store, name: &str) -> NewTask {
    let task = job(name, When::After(seconds(60)));
    accept(store, task.clone()).await;
    let outcome = store.cancel(&task_type(), &id(name)).await;
    assert_eq!(outcome, Ok(CancelOutcome::Cancelled));
    task
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_promoter_whose_submit_arrives_after_its_lock_runs_nothing_again() {
    let stage = Stage::new(&StoreOptions::default());
    let (plan, calls) = broken(("hot", "submit", Fault::Late), 0);
    let slow = stage.instance(&plan);
    accept(&*stage.sender(), far("a")).await;
    while calls.load(Ordering::Relaxed) == 0 {
        pause(millis(1)).await;
    }
    let _fast = stage.instance(&no_fault());
    let mut ledger = Ledger::default();
    ledger.work_until(&*stage.hot, 1).await;
    pause(LATE + LOCK).await;
    slow.store.has_moved_all().await.unwrap();
    ledger.work(&*stage.hot).await;
    assert_eq!(ledger.0[&id("a")].len(), 1);
    assert_eq!(stage.hot.stats(&task_type()).await.unwrap().scheduled, 0);
}

/// An end that hot remembers from before a task was sent is not its end.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_task_sent_right_after_the_end_of_another_is_not_taken_for_that() {
    let stage = Stage::new(&StoreOptions::default());
    let sender = stage.sender();
    let again = replacing(job("a", When::After(seconds(60))));
    accept(&*sender, job("a", When::After(millis(0)))).await;
    let mut ledger = Ledger::default();
    ledger.work_until(&*stage.hot, 1).await;
    // Longer than the clocks of both stores may differ.
    pause(LEAD / 10).await;
    accept(&*sender, again).await;
    // It takes the place of the far one, and is moved at once.
    accept(&*sender, replacing(job("a", When::After(millis(5))))).await;
    let (plan, _) = broken(("hot", "submit", Fault::CrashBefore), 0);
    let first = stage.instance(&plan);
    while !first.has_crashed() {
        pause(millis(1)).await;
    }
    let next = stage.instance(&no_fault());
    let end = SystemClock.elapsed() + seconds(10);
    while ledger.0[&id("a")].len() < 2 {
        assert!(SystemClock.elapsed() < end, "it is lost");
        ledger.work(&*stage.hot).await;
        pause(millis(1)).await;
    }
    next.store.has_moved_all().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_task_in_doubt_is_not_taken_for_another_one_with_its_id() {
    let stage = Stage::new(&StoreOptions::default());
    accept(&*stage.sender(), far("a")).await;
    // A process that does not know of the far task yet.
    let other = with_message(job("a", When::After(seconds(60))), "other");
    accept(&*stage.hot, other).await;
    let (plan, _) = broken(("hot", "submit", Fault::CrashBefore), 0);
    let first = stage.instance(&plan);
    while !first.has_crashed() {
        pause(millis(1)).await;
    }
    let _next = stage.instance(&no_fault());
    let error = dead_error(&stage, "a").await;
    assert!(error.contains("another task with its id"), "{error}");
    let other = stage.hot.find(&task_type(), &id("a")).await.unwrap();
    assert_eq!(other.unwrap().message.as_deref(), Some(&b"other"[..]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_near_task_whose_id_cold_remembers_takes_no_accepted_one_away() {
    let stage = Stage::new(&StoreOptions::default());
    cancelled_in_cold(&*stage.sender(), "a").await;
    let (plan, calls) = broken(("cold", "submit", Fault::Late), 0);
    let slow = stage.sender_with(&plan);
    let near = with_message(job("a", When::After(millis(50))), "slow");
    let sent = tokio::spawn(async move { slow.submit(vec![near]).await.remove(0) });
    while calls.load(Ordering::Relaxed) == 0 {
        pause(millis(1)).await;
    }
    let other = with_message(job("a", When::After(seconds(60))), "other");
    accept(&*stage.hot, other).await;
    let conflict = SubmitOutcome::Conflict {
        state: TaskState::Scheduled,
    };
    assert_eq!(sent.await.unwrap(), Ok(conflict));
    let found = stage.hot.find(&task_type(), &id("a")).await.unwrap();
    assert_eq!(found.unwrap().message.as_deref(), Some(&b"other"[..]));
    let audit = stage.sender().audit(&task_type(), false).await.unwrap();
    assert_eq!(audit.problems, []);
}

/// What a sender leaves that dies during its submit is run, or is not there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sender_that_dies_leaves_nothing_for_later_years() {
    for step in [
        ("cold", "submit", Fault::CrashAfter),
        ("hot", "find", Fault::CrashBefore),
        ("cold", "reschedule", Fault::CrashBefore),
        ("cold", "reschedule", Fault::CrashAfter),
    ] {
        let stage = Stage::new(&StoreOptions::default());
        cancelled_in_cold(&*stage.sender(), "a").await;
        let nth = u32::from(step.0 == "hot");
        let (plan, calls) = broken(step, nth);
        let dying = stage.sender_with(&plan);
        let near = with_message(job("a", When::After(millis(50))), "near");
        let sent_at = now();
        let sent = tokio::spawn(async move { dying.submit(vec![near]).await });
        while calls.load(Ordering::Relaxed) <= nth {
            pause(millis(1)).await;
        }
        let _instance = stage.instance(&no_fault());
        let mut ledger = Ledger::default();
        ledger.work_until(&*stage.hot, 1).await;
        let start = ledger.0[&id("a")][0];
        assert!(start >= sent_at.plus(millis(50)), "{step:?}: early");
        assert!(start < sent_at.plus(LEAD * 20), "{step:?}: {start}");
        sent.abort();
    }
}

/// A request that was refused counts as a new one when it is repeated.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_near_task_whose_id_cold_remembers_runs_on_time_whatever_fails() {
    for step in [
        ("hot", "submit", Fault::NotApplied),
        ("hot", "find", Fault::NotApplied),
        ("cold", "submit", Fault::NotApplied),
        ("cold", "find", Fault::NotApplied),
        ("cold", "none", Fault::None),
    ] {
        let stage = Stage::new(&StoreOptions::default());
        let old = cancelled_in_cold(&*stage.sender(), "a").await;
        let (plan, _) = broken(step, 0);
        let instance = stage.instance(&plan);
        let store = &*instance.store;
        let exists = SubmitOutcome::AlreadyExists {
            state: TaskState::Cancelled,
        };
        let mut same = old;
        same.when = When::After(millis(50));
        let known = loop {
            match store.submit(vec![same.clone()]).await.remove(0) {
                Err(error) => assert!(matches!(error, Error::Unavailable { .. }), "{error}"),
                Ok(outcome) => break outcome,
            }
        };
        assert_eq!(known, exists, "{step:?}");
        let near = with_message(job("a", When::After(millis(250))), "near");
        let (due, sent_at) = loop {
            let sent_at = now();
            match store.submit(vec![near.clone()]).await.remove(0) {
                Err(error) => assert!(matches!(error, Error::Unavailable { .. }), "{error}"),
                Ok(SubmitOutcome::Accepted { due_at, .. }) => break (due_at, sent_at),
                Ok(other) => panic!("{step:?}: {other:?}"),
            }
        };
        assert!(due >= sent_at.plus(millis(250)), "{step:?}");
        let mut ledger = Ledger::default();
        ledger.work_until(&*stage.hot, 1).await;
        assert!(ledger.0[&id("a")][0] >= due, "{step:?}");
    }
}

/// Nobody knows whether a task is left whose cancel got no answer.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_far_task_that_is_given_up_without_an_answer_is_not_called_accepted() {
    let stage = Stage::new(&StoreOptions::default());
    let submit = broken(("cold", "submit", Fault::Late), 0);
    let cancel = broken(("cold", "cancel", Fault::AnswerLost), 0);
    let (calls, both) = (submit.1.clone(), (submit.0, cancel.0));
    let plan = move |store: &'static str, call: &'static str| match both.0(store, call) {
        Fault::None => both.1(store, call),
        fault => fault,
    };
    let plan: Plan = Arc::new(plan);
    let sender = stage.sender_with(&plan);
    let sent = tokio::spawn(async move { sender.submit(vec![far("a")]).await.remove(0) });
    while calls.load(Ordering::Relaxed) == 0 {
        pause(millis(1)).await;
    }
    accept(&*stage.hot, job("a", When::After(seconds(60)))).await;
    let answer = sent.await.unwrap().unwrap_err();
    assert!(answer.is_indeterminate(), "{answer}");
}

/// While nobody knows whether hot has had a task, changes wait until that is known.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_task_in_doubt_that_has_run_is_neither_cancelled_nor_moved_nor_run_again() {
    let stage = Stage::new(&StoreOptions::default());
    let (plan, _) = broken(("hot", "submit", Fault::AnswerLost), 0);
    let sender = stage.sender();
    for name in ["a", "b", "c"] {
        accept(&*sender, far(name)).await;
    }
    let _instance = stage.instance(&plan);
    let mut ledger = Ledger::default();
    ledger.work_until(&*stage.hot, 3).await;
    let left = stage.cold.find(&task_type(), &id("a")).await.unwrap();
    assert_eq!(left.map(|task| task.history.failures), Some(1));
    let done = TaskState::Done;
    let job: TaskType = task_type();
    let [a, b, c] = [id("a"), id("b"), id("c")];
    let cancelled = sender.cancel(&job, &a).await;
    assert_eq!(cancelled, Ok(CancelOutcome::Finished(done)));
    let moved = sender.reschedule(&job, &b, When::After(seconds(90))).await;
    assert_eq!(moved, Ok(ChangeOutcome::Finished(done)));
    let changed = sender.update(&job, &c, b"new".to_vec()).await;
    assert_eq!(changed, Ok(ChangeOutcome::Finished(done)));
    let stats = sender.stats(&job).await.unwrap();
    assert_eq!((stats.scheduled, stats.totals.done), (0, 3));
}

/// A lock that expires would leave another task in doubt.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_claimed_and_not_submitted_is_given_back() {
    let stage = Stage::new(&StoreOptions::default());
    accept(&*stage.sender(), far("a")).await;
    let (lost, _) = broken(("hot", "submit", Fault::AnswerLost), 0);
    let is_away = Arc::new(AtomicBool::new(true));
    let asked = Arc::clone(&is_away);
    let plan = move |store: &'static str, call: &'static str| {
        let is_find = (store, call) == ("hot", "find");
        if is_find && asked.load(Ordering::Relaxed) {
            return Fault::NotApplied;
        }
        lost(store, call)
    };
    let plan: Plan = Arc::new(plan);
    let instance = stage.instance(&plan);
    let end = SystemClock.elapsed() + seconds(10);
    let left = loop {
        assert!(SystemClock.elapsed() < end, "it was not given back");
        let left = stage.cold.find(&task_type(), &id("a")).await.unwrap();
        match left {
            Some(task) if task.history.releases > 1 => break task,
            _ => pause(millis(2)).await,
        }
    };
    assert_eq!(left.history.lock_expiries, 0);
    is_away.store(false, Ordering::Relaxed);
    instance.store.has_moved_all().await.unwrap();
    let mut ledger = Ledger::default();
    ledger.work_until(&*stage.hot, 1).await;
    assert_eq!(stage.hot.stats(&task_type()).await.unwrap().scheduled, 0);
}
