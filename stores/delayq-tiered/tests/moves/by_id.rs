//! Operations on one task, wherever it is.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use delayq_core::memory::MemoryStore;
use delayq_core::operate::Operate;
use delayq_core::store::{CancelOutcome, ChangeOutcome, StoreOptions, SubmitOutcome};
use delayq_core::{
    Clock, Error, Expiry, NewTask, OnConflict, Result, Store, SystemClock, TaskId, TaskInfo,
    TaskState, TaskType, Timestamp, When, millis, seconds,
};
use delayq_testing::Fault;
use delayq_tiered::{TierOptions, TieredStore};

use super::stage::{
    HORIZON, LEAD, Ledger, Plan, Stage, accept, id, job, no_fault, now, pause, task_type,
};

fn replacing(mut task: NewTask) -> NewTask {
    task.on_conflict = OnConflict::Replace;
    task
}

async fn in_cold(scene: &Stage, name: &str) -> Option<TaskState> {
    let found = scene.cold.find(&task_type(), &id(name)).await.unwrap();
    found.map(|task| task.state)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_far_task_is_shown_as_it_was_sent_and_takes_no_room_in_hot() {
    let scene = Stage::new(&StoreOptions::default());
    let tier = scene.sender();
    let store = &*tier;
    let mut sent = job("a", When::After(seconds(60)));
    sent.expiry = Some(Expiry::AfterDue(seconds(5)));
    sent.headers.insert("shop".to_owned(), "bonn".to_owned());
    let due = accept(store, sent.clone()).await;
    assert!(due.since(now()) > seconds(59));
    let found = store.find(&task_type(), &id("a")).await.unwrap().unwrap();
    assert_eq!((found.state, found.at), (TaskState::Scheduled, due));
    assert_eq!(
        (found.due_at, found.expires_at),
        (Some(due), Some(due.plus(seconds(5))))
    );
    assert_eq!(
        (found.headers.clone(), found.attempt),
        (sent.headers.clone(), 0)
    );
    let page = store
        .list(&task_type(), TaskState::Scheduled, None, 10)
        .await
        .unwrap();
    assert_eq!(page.tasks, [found]);
    let counts = store.stats(&task_type()).await.unwrap();
    assert_eq!((counts.scheduled, counts.next_due), (1, Some(due)));
    assert_eq!(scene.hot.stats(&task_type()).await.unwrap().scheduled, 0);
    let known = store.submit(vec![sent.clone()]).await.remove(0);
    let state = TaskState::Scheduled;
    assert_eq!(known, Ok(SubmitOutcome::AlreadyExists { state }));
    // The same request is known where it is, also once it has been moved.
    let mover = scene.instance(&no_fault());
    let soon = job("b", When::After(HORIZON + millis(100)));
    accept(store, soon.clone()).await;
    while in_cold(&scene, "b").await == Some(TaskState::Scheduled) {
        pause(millis(1)).await;
    }
    mover.store.has_moved_all().await.unwrap();
    let known = store.submit(vec![soon.clone()]).await.remove(0);
    assert!(
        matches!(known, Ok(SubmitOutcome::AlreadyExists { .. })),
        "{known:?}"
    );
    Ledger::default().work_until(&*scene.hot, 1).await;
    let known = store.submit(vec![soon]).await.remove(0);
    let state = TaskState::Done;
    assert_eq!(known, Ok(SubmitOutcome::AlreadyExists { state }));
    let known = store.submit(vec![sent]).await.remove(0);
    assert!(
        matches!(known, Ok(SubmitOutcome::AlreadyExists { .. })),
        "{known:?}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_far_task_is_run_now_moved_near_and_replaced_by_a_near_one() {
    let scene = Stage::new(&StoreOptions::default());
    let instance = scene.instance(&no_fault());
    let store = &*instance.store;
    for name in ["now", "near", "replaced", "later"] {
        accept(store, job(name, When::After(seconds(60)))).await;
    }
    let changed = |outcome| match outcome {
        Ok(ChangeOutcome::Changed { due_at }) => due_at,
        other => panic!("{other:?}"),
    };
    let at = now();
    let later = store
        .reschedule(&task_type(), &id("later"), When::After(seconds(90)))
        .await;
    assert!(changed(later).since(at) >= seconds(90));
    let near = at.plus(LEAD * 2);
    let moved = store
        .reschedule(&task_type(), &id("near"), When::At(near))
        .await;
    assert_eq!(changed(moved), near);
    let run = store
        .reschedule(&task_type(), &id("now"), When::After(millis(0)))
        .await;
    assert!(changed(run).since(at) < seconds(5));
    let soon = store
        .submit(vec![replacing(job("replaced", When::After(millis(10))))])
        .await;
    let Ok(SubmitOutcome::Accepted { due_at, replaced }) = soon[0] else {
        panic!("{soon:?}");
    };
    assert!(replaced && due_at >= at.plus(millis(10)));
    let mut ledger = Ledger::default();
    ledger.work_until(&*scene.hot, 3).await;
    assert!(ledger.0[&id("near")][0] >= near);
    assert!(ledger.0[&id("replaced")][0] >= due_at);
    assert_eq!(store.stats(&task_type()).await.unwrap().scheduled, 1);
    let none = store
        .reschedule(&task_type(), &id("none"), When::At(Timestamp::ZERO))
        .await;
    assert_eq!(none, Ok(ChangeOutcome::NotFound));
    let done = store.update(&task_type(), &id("now"), Vec::new()).await;
    assert_eq!(done, Ok(ChangeOutcome::Finished(TaskState::Done)));
    let report = store.audit(&task_type(), false).await.unwrap();
    assert_eq!(report.problems, []);
}

/// A plan whose submits to hot hang until the test lets them go.
fn held() -> (Plan, Arc<AtomicBool>) {
    let is_held = Arc::new(AtomicBool::new(true));
    let asked = Arc::clone(&is_held);
    let plan = move |store: &str, call: &str| {
        if (store, call) == ("hot", "submit") && asked.load(Ordering::Relaxed) {
            Fault::NotApplied
        } else {
            Fault::None
        }
    };
    (Arc::new(plan), is_held)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cancel_is_final_wherever_the_task_is() {
    let scene = Stage::new(&StoreOptions::default());
    let (plan, is_held) = held();
    let instance = scene.instance(&plan);
    let store = &*instance.store;
    let far = job("far", When::After(seconds(60)));
    accept(store, far.clone()).await;
    let cancel = async |name: &str| store.cancel(&task_type(), &id(name)).await.unwrap();
    assert_eq!(cancel("far").await, CancelOutcome::Cancelled);
    let state = TaskState::Cancelled;
    assert_eq!(cancel("far").await, CancelOutcome::Finished(state));
    let again = store.submit(vec![far]).await.remove(0);
    assert_eq!(again, Ok(SubmitOutcome::AlreadyExists { state }));
    // Tasks whose moves fail again and again, cancelled at any moment of that.
    for n in 0..40 {
        let name = format!("t{n}");
        accept(store, job(&name, When::After(HORIZON + millis(1)))).await;
    }
    pause(HORIZON.saturating_sub(LEAD)).await;
    for n in 0..40 {
        pause(millis(7)).await;
        let outcome = cancel(&format!("t{n}")).await;
        assert_eq!(outcome, CancelOutcome::Cancelled, "{n}");
    }
    is_held.store(false, Ordering::Relaxed);
    instance.store.has_moved_all().await.unwrap();
    pause(millis(1_200)).await;
    let mut ledger = Ledger::default();
    ledger.work(&*scene.hot).await;
    assert_eq!(ledger.0.len(), 0, "{ledger:?}");
}

/// Ids that both stores could have are judged in the order of the batch.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn near_and_far_requests_for_one_id_make_one_task() {
    let scene = Stage::new(&StoreOptions::default());
    let tier = scene.sender();
    let store = &*tier;
    let (near, far) = (When::After(millis(0)), When::After(seconds(60)));
    let batch = vec![
        job("a", far),
        job("a", near),
        job("b", near),
        job("b", far),
        replacing(job("a", near)),
    ];
    let outcomes = store.submit(batch).await;
    let state = TaskState::Scheduled;
    let accepted = |at: usize| matches!(outcomes[at], Ok(SubmitOutcome::Accepted { .. }));
    assert!(accepted(0) && accepted(2) && accepted(4), "{outcomes:?}");
    assert_eq!(outcomes[1], Ok(SubmitOutcome::Conflict { state }));
    assert_eq!(outcomes[3], Ok(SubmitOutcome::Conflict { state }));
    let _mover = scene.instance(&no_fault());
    let mut ledger = Ledger::default();
    ledger.work_until(&*scene.hot, 2).await;
    let report = store.audit(&task_type(), false).await.unwrap();
    assert_eq!(report.problems, []);
}

/// How long a task of [`Restless`] is being moved each time.
const MOVING: Duration = millis(400);

/// A cold store whose task is being moved at each call that changes it, and is given back later.
#[derive(Debug)]
struct Restless {
    inner: Arc<MemoryStore>,
    taken_at: Mutex<Duration>,
}

impl Restless {
    fn take(&self) {
        *self.taken_at.lock().unwrap() = SystemClock.elapsed();
    }
}

impl delayq_core::store::Layer for Restless {
    fn inner(&self) -> &dyn Store {
        &*self.inner
    }

    async fn find(&self, task_type: &TaskType, id: &TaskId) -> Result<Option<TaskInfo>> {
        let mut found = self.inner.find(task_type, id).await?;
        let is_moving = SystemClock.elapsed() < *self.taken_at.lock().unwrap() + MOVING;
        if let Some(task) = found.as_mut().filter(|_| is_moving) {
            task.state = TaskState::Running;
        }
        Ok(found)
    }

    async fn update(&self, _: &TaskType, _: &TaskId, _: Vec<u8>) -> Result<ChangeOutcome> {
        self.take();
        Ok(ChangeOutcome::Running)
    }

    async fn cancel(&self, _: &TaskType, _: &TaskId) -> Result<CancelOutcome> {
        self.take();
        Ok(CancelOutcome::Running)
    }
}

/// A promoter takes the task and gives it back, again and again, as hot is full.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_on_a_task_that_is_never_at_rest_ends_within_its_time() {
    let stores = StoreOptions {
        call_timeout: millis(500),
        ..StoreOptions::default()
    };
    let memory = || Arc::new(MemoryStore::new(Arc::new(SystemClock), stores.clone()));
    let cold = Restless {
        inner: memory(),
        taken_at: Mutex::default(),
    };
    let options = TierOptions::new(HORIZON, &stores);
    let options = options.for_tests(LEAD, seconds(10), Arc::new(SystemClock));
    let tier = TieredStore::open(memory(), Arc::new(cold), options.moving_nothing()).unwrap();
    accept(&*tier, job("a", When::After(seconds(60)))).await;
    let (task_type, id) = (task_type(), id("a"));
    let began = SystemClock.elapsed();
    let updated = tier.update(&task_type, &id, b"new".to_vec()).await;
    assert!(
        matches!(updated, Err(Error::Unavailable { .. })),
        "{updated:?}"
    );
    let then = SystemClock.elapsed();
    let cancelled = tier.cancel(&task_type, &id).await;
    // Cold may have cancelled it.
    assert!(
        matches!(cancelled, Err(Error::Indeterminate { .. })),
        "{cancelled:?}"
    );
    let took = [
        then.saturating_sub(began),
        SystemClock.elapsed().saturating_sub(then),
    ];
    // One wait was over before the last one began.
    assert!(took.iter().all(|took| *took >= MOVING), "{took:?}");
    assert!(took.iter().all(|took| *took < MOVING * 3), "{took:?}");
}
