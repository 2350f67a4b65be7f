//! Ids that two tasks want while one of them is moved.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use delayq_core::store::{
    AttemptEnd, Bucket, CancelOutcome, ChangeOutcome, ClaimRequest, Settlement, StoreOptions,
    SubmitOutcome,
};
use delayq_core::{
    Error, Lock, NewTask, OnConflict, Store, TaskInfo, TaskState, When, millis, seconds,
};
use delayq_testing::Fault;

use super::stage::{
    HORIZON, LEAD, Ledger, Stage, accept, broken, id, job, no_fault, now, pause, task_type,
};

fn far(name: &str, message: &str) -> NewTask {
    let mut task = job(name, When::After(HORIZON + millis(20)));
    task.message = message.as_bytes().to_vec();
    task
}

async fn of(store: &dyn Store, name: &str) -> Option<TaskInfo> {
    store.find(&task_type(), &id(name)).await.unwrap()
}

/// Claims a task in cold, as a promoter does.
async fn claimed(scene: &Stage) -> Lock {
    let bucket = Bucket::whole(task_type());
    loop {
        let request = ClaimRequest::new(1, seconds(30), now());
        let claimed = scene.cold.claim(&bucket, &request).await.unwrap();
        match claimed.tasks.into_iter().next() {
            Some(task) => return task.lock,
            None => pause(millis(2)).await,
        }
    }
}

/// Gives it back.
async fn give_back(scene: &Stage, lock: Lock) {
    let (after, succeeded) = (seconds(30), Vec::new());
    let end = AttemptEnd::Release { after, succeeded };
    let bucket = Bucket::whole(task_type());
    let settled = scene.cold.settle(&bucket, vec![Settlement::new(lock, end)]);
    settled.await.unwrap();
}

async fn due_now(scene: &Stage) {
    let (job, soon) = (task_type(), When::After(millis(0)));
    let moved = scene.cold.reschedule(&job, &id("a"), soon).await;
    assert!(
        matches!(moved, Ok(ChangeOutcome::Changed { .. })),
        "{moved:?}"
    );
}

/// Does what `call` does to a sender while the far task `a` is in the hands of a promoter, which
/// then gives it back.
async fn meanwhile<T: Send + 'static, F: Future<Output = T> + Send + 'static>(
    scene: &Stage,
    call: impl FnOnce(Arc<dyn Store>) -> F,
) -> T {
    let lock = claimed(scene).await;
    let called = tokio::spawn(call(scene.sender()));
    pause(millis(60)).await;
    assert!(!called.is_finished(), "it did not wait for the move");
    give_back(scene, lock).await;
    called.await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_id_of_a_task_that_a_promoter_gives_back_stays_its_own() {
    let scene = Stage::new(&StoreOptions::default());
    accept(&*scene.sender(), far("a", "first")).await;
    let send = |on_conflict: OnConflict| {
        move |store: Arc<dyn Store>| async move {
            let mut other = far("a", "other");
            other.on_conflict = on_conflict;
            store.submit(vec![other]).await.remove(0)
        }
    };
    let state = TaskState::Scheduled;
    let answer = meanwhile(&scene, send(OnConflict::Reject)).await;
    assert_eq!(answer, Ok(SubmitOutcome::Conflict { state }));
    assert_eq!(of(&*scene.hot, "a").await, None);
    let first = of(&*scene.cold, "a").await.unwrap();
    assert_eq!(first.message.as_deref(), Some(&b"first"[..]));
    due_now(&scene).await;
    let answer = meanwhile(&scene, send(OnConflict::Replace)).await;
    assert!(
        matches!(answer, Err(Error::Unavailable { .. })),
        "{answer:?}"
    );
    assert_eq!(of(&*scene.hot, "a").await, None);
}

/// An end of an earlier task with its id is not its end.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_task_that_a_promoter_gives_back_is_changed_and_cancelled_where_it_is() {
    let scene = Stage::new(&StoreOptions::default());
    accept(&*scene.sender(), job("a", When::After(millis(0)))).await;
    Ledger::default().work_until(&*scene.hot, 1).await;
    let mut task = far("a", "first");
    task.on_conflict = OnConflict::Replace;
    accept(&*scene.sender(), task).await;
    let changed = meanwhile(&scene, |store| async move {
        let message = b"new".to_vec();
        store.update(&task_type(), &id("a"), message).await
    });
    let changed = changed.await;
    assert!(
        matches!(changed, Ok(ChangeOutcome::Changed { .. })),
        "{changed:?}"
    );
    due_now(&scene).await;
    let cancelled = meanwhile(&scene, |store| async move {
        store.cancel(&task_type(), &id("a")).await
    });
    assert_eq!(cancelled.await, Ok(CancelOutcome::Cancelled));
}

/// Such a process is one without a cold store.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_far_task_is_not_taken_for_one_that_a_process_sends_that_does_not_see_it() {
    let scene = Stage::new(&StoreOptions::default());
    accept(&*scene.sender(), far("a", "first")).await;
    // From here on a promoter may have moved it.
    pause(HORIZON).await;
    let other = job("a", When::After(seconds(60)));
    accept(&*scene.hot, other).await;
    let instance = scene.instance(&no_fault());
    instance.store.has_moved_all().await.unwrap();
    let left = of(&*scene.cold, "a").await.unwrap();
    assert_eq!(left.state, TaskState::Dead);
    let error = left.history.last_error.unwrap();
    assert!(error.contains("another task with its id"), "{error}");
}

/// A second submit could be accepted, if the present task ends in between.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_conflict_with_a_moved_task_is_told_without_another_submit() {
    let scene = Stage::new(&StoreOptions::default());
    let (plan, submits) = broken(("hot", "submit", Fault::None), 0);
    let sender = scene.sender_with(&plan);
    accept(&*sender, far("a", "first")).await;
    let instance = scene.instance(&no_fault());
    while of(&*scene.hot, "a").await.is_none() {
        pause(millis(1)).await;
    }
    let state = TaskState::Scheduled;
    let answer = sender.submit(vec![far("a", "other")]).await.remove(0);
    assert_eq!(answer, Ok(SubmitOutcome::Conflict { state }));
    assert_eq!(submits.load(Ordering::Relaxed), 1);
    let answer = sender.submit(vec![far("a", "first")]).await.remove(0);
    assert_eq!(answer, Ok(SubmitOutcome::AlreadyExists { state }));
    instance.store.has_moved_all().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_near_task_that_gives_way_to_a_far_one_is_not_written() {
    let scene = Stage::new(&StoreOptions::default());
    let (plan, submits) = broken(("cold", "submit", Fault::None), 0);
    let sender = scene.sender_with(&plan);
    let mut first = far("a", "first");
    let due = now().plus(HORIZON + millis(20));
    first.when = When::At(due);
    accept(&*sender, first.clone()).await;
    let state = TaskState::Scheduled;
    let near = job("a", When::After(millis(10)));
    let mut kept = near.clone();
    kept.on_conflict = OnConflict::Keep;
    let exists = SubmitOutcome::AlreadyExists { state };
    let conflict = SubmitOutcome::Conflict { state };
    // The same request, once it is near.
    pause(HORIZON.saturating_sub(LEAD + LEAD / 2)).await;
    for (task, answer) in [(near, conflict), (kept, exists), (first, exists)] {
        assert_eq!(sender.submit(vec![task]).await.remove(0), Ok(answer));
    }
    assert_eq!(submits.load(Ordering::Relaxed), 1);
}

/// The header of the tier is not a sender's.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sender_cannot_steer_a_move() {
    let scene = Stage::new(&StoreOptions::default());
    let sender = scene.sender();
    let due = now().plus(HORIZON + millis(50));
    let mut task = job("a", When::At(due));
    let mark = "due=5 after=1".to_owned();
    task.headers.insert("delayq-tier".to_owned(), mark);
    assert_eq!(accept(&*sender, task.clone()).await, due);
    assert_eq!(of(&*sender, "a").await.unwrap().due_at, Some(due));
    (task.id, task.when) = (id("b"), When::After(millis(0)));
    accept(&*sender, task).await;
    let _instance = scene.instance(&no_fault());
    let mut ledger = Ledger::default();
    ledger.work_until(&*scene.hot, 2).await;
    assert!(ledger.0[&id("a")][0] >= due);
}
