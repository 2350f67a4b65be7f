//! Many callers, one transaction.

use std::time::Duration;

use delayq_core::fleet::Rate;
use delayq_core::state::TaskState;
use delayq_core::store::CancelOutcome;
use delayq_core::time::seconds;
use tokio::task::JoinSet;

use super::*;
use crate::operations::claim as claiming;

#[tokio::test]
async fn concurrent_submits_share_a_transaction() {
    let place = Place::new();
    let store = place.open().await;
    let lock = place.lock();
    let mut submits = JoinSet::new();
    for n in 0..100 {
        let store = Arc::clone(&store);
        submits.spawn(async move { accept(&store, &n.to_string()).await });
    }
    let_all_begin().await;
    release(&lock);
    submits.join_all().await;
    // The first transaction may have begun to wait before all were in line.
    assert!((1..=2).contains(&store.engine.commits()), "{store:?}");
    assert_eq!(store.stats(&usual_type()).await.unwrap().scheduled, 100);
}

#[tokio::test]
async fn a_call_that_fails_does_not_spoil_the_others() {
    let place = Place::new();
    let store = place.open().await;
    accept(&store, "bad").await;
    let lock = place.connect();
    let damage = "BEGIN IMMEDIATE; UPDATE tasks SET state = 9 WHERE id = 'bad';";
    lock.execute_batch(damage).unwrap();
    let mut cancels = JoinSet::new();
    for task in ["1", "bad", "2"] {
        let store = Arc::clone(&store);
        cancels.spawn(async move {
            let submitted = submit(&store, task_due_later(task)).await;
            (task, submitted.map(drop))
        });
    }
    let_all_begin().await;
    lock.execute_batch("COMMIT").unwrap();
    for (task, result) in cancels.join_all().await {
        assert_eq!(result.is_ok(), task != "bad", "{task}: {result:?}");
    }
    assert!(find(&store, "1").await.is_some() && find(&store, "2").await.is_some());
}

fn task_due_later(id: &str) -> NewTask {
    let job = DelayQueueJob::raw("order.cancel", "other").id(id);
    let job = job.after(seconds(60));
    job.into_task(&Limits::default(), Timestamp::ZERO).unwrap()
}

#[tokio::test]
async fn idle_claims_write_nothing_and_wait_for_no_lock() {
    let place = Place::new();
    let store = place.open().await;
    submit(&store, task_due_later("1")).await.unwrap();
    let before = store.engine.commits();
    let lock = place.lock();
    for _ in 0..10 {
        assert_eq!(claim(&store).await.unwrap().tasks, []);
    }
    assert_eq!(store.engine.commits(), before);
    release(&lock);
}

/// A claim for no task, and one whose rate has no start left, find nothing to do in spite of a due
/// task.
#[tokio::test]
async fn claims_that_may_start_nothing_write_nothing() {
    let place = Place::new();
    let store = place.open().await;
    accept(&store, "1").await;
    accept(&store, "2").await;
    let paced = request().fleet(FleetLimits {
        concurrency: None,
        rate: Some(Rate::per_hour(1)),
    });
    let started = store.claim(&bucket(), &paced).await.unwrap();
    assert_eq!(ids(&started), ["1"]);
    let mut none = request();
    none.limit = 0;
    let before = store.engine.commits();
    let lock = place.lock();
    for request in [&paced, &none] {
        let claimed = store.claim(&bucket(), request).await.unwrap();
        assert_eq!(claimed.tasks, []);
    }
    assert_eq!(store.engine.commits(), before);
    release(&lock);
}

#[tokio::test]
async fn queries_do_not_wait_for_the_writer() {
    let place = Place::new();
    let store = place.open().await;
    accept(&store, "1").await;
    let lock = place.lock();
    assert!(find(&store, "1").await.is_some());
    assert_eq!(store.stats(&usual_type()).await.unwrap().due, 1);
    release(&lock);
}

#[tokio::test]
async fn a_call_that_waits_too_long_for_the_lock_is_certainly_not_applied() {
    let place = Place::new();
    let store = place.open_hurried(Duration::from_millis(200)).await;
    let lock = place.lock();
    let error = submit(&store, task("1")).await.unwrap_err();
    assert!(matches!(&error, Error::Unavailable { .. }), "{error}");
    assert!(error.to_string().contains("another process"), "{error}");
    release(&lock);
    store.check().await.unwrap();
    assert_eq!(find(&store, "1").await, None);
    accept(&store, "1").await;
}

#[tokio::test]
async fn callers_wait_for_room_and_nothing_is_lost() {
    let place = Place::new();
    let store = place.open_hurried(seconds(60)).await;
    let lock = place.lock();
    let mut submits = JoinSet::new();
    // 100 MiB: more than the lane and the group under way hold.
    for n in 0..400 {
        let store = Arc::clone(&store);
        let task = large_task(&n.to_string(), 256 << 10);
        submits.spawn(async move { submit(&store, task).await.unwrap() });
    }
    let_all_begin().await;
    release(&lock);
    assert_eq!(submits.join_all().await.len(), 400);
    assert_eq!(store.stats(&usual_type()).await.unwrap().scheduled, 400);
}

#[tokio::test]
async fn a_claim_whose_caller_has_gone_costs_no_attempt() {
    let place = Place::new();
    let store = place.open().await;
    accept(&store, "1").await;
    let lock = place.lock();
    let caller = Arc::clone(&store);
    let claiming = tokio::spawn(async move { claim(&caller).await });
    let_all_begin().await;
    // The writer has taken the call and waits for the lock, or will find its caller gone.
    claiming.abort();
    assert!(claiming.await.unwrap_err().is_cancelled());
    release(&lock);
    // Whatever the claim left behind stands in line before the second of these.
    store.check().await.unwrap();
    store.check().await.unwrap();
    let claimed = claim(&store).await.unwrap();
    assert_eq!(ids(&claimed), ["1"]);
    assert_eq!(
        (claimed.tasks[0].attempt, claimed.tasks[0].history.releases),
        (1, 0)
    );
}

#[tokio::test]
async fn a_task_given_back_waits_as_before() {
    let place = Place::new();
    let store = place.open().await;
    accept(&store, "1").await;
    let before = find(&store, "1").await.unwrap();
    let claimed = claim(&store).await.unwrap();
    let task = claimed.tasks[0].clone();
    let give_back = move |tx: &mut Tx<'_>| claiming::give_back(&mut tx.made(&usual_type())?, &task);
    let size = Size::ONE;
    store
        .engine
        .write(Lane::Operations, size, give_back)
        .await
        .unwrap();
    assert_eq!(find(&store, "1").await.unwrap(), before);
    let again = claim(&store).await.unwrap();
    assert!(again.tasks[0].lock.fence > claimed.tasks[0].lock.fence);
    is_sound(&store).await;
}

/// Found in review: the task started although its cancel had been answered with "running, and no
/// further attempt".
#[tokio::test]
async fn a_task_given_back_after_a_cancel_request_is_cancelled() {
    let place = Place::new();
    let store = place.open().await;
    accept(&store, "1").await;
    let claimed = claim(&store).await.unwrap();
    let task = claimed.tasks[0].clone();
    let id = task.lock.id.clone();
    let cancelled = store.cancel(&usual_type(), &id).await;
    assert_eq!(cancelled, Ok(CancelOutcome::Running));
    let give_back = move |tx: &mut Tx<'_>| claiming::give_back(&mut tx.made(&usual_type())?, &task);
    let write = store.engine.write(Lane::Operations, Size::ONE, give_back);
    write.await.unwrap();
    let found = find(&store, "1").await.unwrap();
    assert_eq!(found.state, TaskState::Cancelled);
    is_sound(&store).await;
}

#[tokio::test]
async fn a_closed_store_answers_what_is_in_line_and_nothing_more() {
    let place = Place::new();
    let store = place.open().await;
    let other = Arc::clone(&store);
    let submitting = tokio::spawn(async move { accept(&other, "1").await });
    let_all_begin().await;
    store.close().await;
    submitting.await.unwrap();
    let closed = Error::Closed("the store");
    assert_eq!(submit(&store, task("2")).await, Err(closed.clone()));
    assert_eq!(claim(&store).await, Err(closed.clone()));
    assert_eq!(store.types().await, Err(closed));
    assert!(!place.beside("-wal").exists(), "one tidy file is left");
    assert_eq!(
        find(&place.open().await, "1").await.unwrap().state,
        TaskState::Scheduled
    );
}

#[tokio::test]
async fn a_store_that_is_dropped_leaves_one_tidy_file() {
    let place = Place::new();
    let store = place.open().await;
    accept(&store, "1").await;
    assert!(place.beside("-wal").exists());
    drop(store);
    let tidy = async {
        while place.beside("-wal").exists() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(seconds(30), tidy).await.unwrap();
}
