//! A real store and a real worker, recorded to files, read again and judged.

#![allow(
    clippy::unwrap_used,
    reason = "what a test must not do in silence, it does by panicking"
)]

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use delayq_chaos::check::{Outcome, Promise, Verdict, check};
use delayq_chaos::event::{Plan, StoredTask, What};
use delayq_chaos::history::History;
use delayq_chaos::record::{RecordedStore, RecordedWorker, Recorder};
use delayq_core::memory::MemoryStore;
use delayq_core::operate::DeadFilter;
use delayq_core::store::{AttemptEnd, CancelOutcome, ClaimRequest, Settlement, StoreOptions};
use delayq_core::worker::{Attempt, StopSignal};
use delayq_core::{
    Bucket, Clock, DelayQueueJob, Limits, Operate, Store, SystemClock, TaskContext, TaskError,
    TaskId, TaskResult, TaskState, TaskType, TaskWorker, When,
};

/// Succeeds unless it is told to fail.
struct Idle {
    fails: Arc<AtomicBool>,
}

#[async_trait]
impl TaskWorker for Idle {
    async fn invoke(&self, _message: &str, _cx: &TaskContext) -> TaskResult {
        if self.fails.load(Ordering::Relaxed) {
            return Err(TaskError::retry("told to fail"));
        }
        Ok(())
    }
}

/// One process with one store, recorded into a folder.
struct Session {
    store: RecordedStore,
    /// The store itself: what is done to it is not recorded.
    inner: Arc<MemoryStore>,
    worker: RecordedWorker<Idle>,
    fails: Arc<AtomicBool>,
    recorder: Recorder,
    task_type: TaskType,
    bucket: Bucket,
}

const LOCK: Duration = Duration::from_secs(10);

fn memory() -> Arc<MemoryStore> {
    let store = MemoryStore::new(Arc::new(SystemClock), StoreOptions::default());
    Arc::new(store)
}

impl Session {
    fn open(folder: &Path) -> Self {
        let recorder = Recorder::open(folder, "w1", 1, "default").expect("a folder to write to");
        recorder.record(What::Plan(Plan {
            lock_ms: 10_000,
            retention_ms: 600_000,
            ..Plan::default()
        }));
        let inner = memory();
        let task_type = TaskType::new("mail").expect("a valid type");
        let fails = Arc::new(AtomicBool::new(false));
        let idle = Idle {
            fails: Arc::clone(&fails),
        };
        Self {
            store: RecordedStore::new(inner.clone(), recorder.clone()),
            inner,
            worker: RecordedWorker::new(idle, recorder.clone(), "idle", "mail"),
            fails,
            recorder,
            bucket: Bucket::whole(task_type.clone()),
            task_type,
        }
    }

    async fn submit(&self, id: &str, job: impl Fn(DelayQueueJob) -> DelayQueueJob) {
        let job = job(DelayQueueJob::raw("mail", id).id(id));
        let task = job.into_task(&Limits::default(), SystemClock.now());
        let answers = self
            .store
            .submit(vec![
                task.expect("the memory store and its worker never fail"),
            ])
            .await;
        answers
            .into_iter()
            .next()
            .expect("the memory store and its worker never fail")
            .expect("the memory store and its worker never fail");
    }

    /// Claims all that is due, and settles each task as `end` says. Workers see `message`, if
    /// given.
    async fn work(&self, message: Option<&str>, end: impl Fn(&str) -> AttemptEnd) -> usize {
        let request = ClaimRequest::new(10, LOCK, SystemClock.now());
        let claimed = self
            .store
            .claim(&self.bucket, &request)
            .await
            .expect("the memory store and its worker never fail");
        let count = claimed.tasks.len();
        for task in claimed.tasks {
            let attempt = Attempt {
                task_type: self.task_type.clone(),
                id: task.lock.id.clone(),
                attempt: task.attempt,
                tried: task.history.tried(),
                due_at: task.due_at,
                claimed_at: claimed.now,
                submitted_at: task.submitted_at,
                fence: task.lock.fence,
                headers: task.headers,
            };
            let cx = TaskContext::new(attempt, StopSignal::new());
            let message = message.map_or(task.message.as_slice(), str::as_bytes);
            let end = end(task.lock.id.as_str());
            let fails = !matches!(end, AttemptEnd::Done);
            self.fails.store(fails, Ordering::Relaxed);
            let result = self.worker.invoke_bytes(message, &cx).await;
            assert_eq!(result.is_err(), fails);
            let lock = task.lock;
            let extended = self.store.extend(&self.bucket, vec![lock.clone()], LOCK);
            extended
                .await
                .expect("the memory store and its worker never fail");
            let settled = self
                .store
                .settle(&self.bucket, vec![Settlement::new(lock, end)]);
            settled
                .await
                .expect("the memory store and its worker never fail");
        }
        count
    }

    /// What an impartial look at the store finds at the end.
    async fn dump(&self, ids: &[&str]) {
        for id in ids {
            let found = self
                .store
                .find(&self.task_type, &TaskId::new(id).expect("a valid id"))
                .await;
            let Some(info) = found.expect("the memory store and its worker never fail") else {
                continue;
            };
            self.recorder.record(What::Stored(StoredTask {
                task: format!("mail/{id}"),
                state: info.state,
                at: info.at,
                attempt: info.attempt,
                trail: Some((
                    info.history.failures,
                    info.history.lock_expiries,
                    info.history.releases,
                    info.history.requeues,
                )),
            }));
        }
        let store_now = self
            .store
            .stats(&self.task_type)
            .await
            .expect("the memory store and its worker never fail")
            .now;
        self.recorder.record(What::Dumped { store_now });
    }
}

fn verdict(folder: &Path) -> Verdict {
    check(&History::read(folder).expect("whole files"))
}

fn done(_: &str) -> AttemptEnd {
    AttemptEnd::Done
}

fn dead(_: &str) -> AttemptEnd {
    AttemptEnd::Dead {
        error: "broken".to_owned(),
        succeeded: Vec::new(),
    }
}

fn again(_: &str) -> AttemptEnd {
    AttemptEnd::Retry {
        after: Duration::ZERO,
        error: "not yet".to_owned(),
        succeeded: Vec::new(),
    }
}

#[tokio::test]
async fn every_operation_of_a_sound_store_is_recorded_and_holds() {
    let folder = tempfile::tempdir().unwrap();
    let session = Session::open(folder.path());
    let hour = Duration::from_hours(1);
    session.submit("a", |job| job).await;
    session.submit("a", |job| job).await;
    assert_eq!(session.work(None, again).await, 1);
    assert_eq!(session.work(None, done).await, 1);
    session.submit("b", |job| job).await;
    assert_eq!(session.work(None, dead).await, 1);
    let (mail, b) = (&session.task_type, TaskId::new("b").unwrap());
    let filter = DeadFilter::Ids(vec![b]);
    let requeued = session.store.requeue_dead(mail, &filter, Duration::ZERO);
    assert_eq!(requeued.await.unwrap().len(), 1);
    assert_eq!(session.work(None, done).await, 1);
    session
        .submit("c", |job| job.after(hour).header("x", "y"))
        .await;
    let c = TaskId::new("c").unwrap();
    let now = When::After(Duration::ZERO);
    let _ = session.store.reschedule(mail, &c, now).await.unwrap();
    let _ = session
        .store
        .update(mail, &c, b"new".to_vec())
        .await
        .unwrap();
    assert_eq!(session.work(None, done).await, 1);
    session
        .submit("d", |job| job.at(SystemClock.now().plus(hour)))
        .await;
    let cancelled = session.store.cancel(mail, &TaskId::new("d").unwrap()).await;
    assert_eq!(cancelled.unwrap(), CancelOutcome::Cancelled);
    session.submit("e", |job| job.after(hour)).await;
    session.dump(&["a", "b", "c", "d", "e"]).await;

    let verdict = verdict(folder.path());
    assert_eq!(verdict.outcome(), Outcome::Held, "{verdict}");
    let figures = &verdict.figures;
    assert_eq!((figures.tasks, figures.accepted, figures.starts), (5, 5, 5));
    assert_eq!(figures.repeats["retry"], 1);
    assert_eq!(figures.repeats["sent or requeued again"], 1);
    for (answer, count) in [
        ("submit: accepted", 5),
        ("submit: exists", 1),
        ("claim: handed out", 5),
        ("extend: answered", 5),
        ("settle: done", 3),
        ("settle: dead", 1),
        ("settle: retry", 1),
        ("cancel: cancelled", 1),
        ("reschedule", 1),
        ("update", 1),
        ("requeue", 1),
    ] {
        assert_eq!(
            figures.answers.get(answer),
            Some(&count),
            "{answer}\n{verdict}"
        );
    }
}

#[tokio::test]
async fn bytes_that_change_between_store_and_worker_are_seen() {
    let folder = tempfile::tempdir().unwrap();
    let session = Session::open(folder.path());
    session.submit("a", |job| job).await;
    session.work(Some("altered"), done).await;
    session.dump(&["a"]).await;
    let verdict = verdict(folder.path());
    assert!(verdict.breaks(Promise::Integrity), "{verdict}");
    assert_eq!(verdict.broken.len(), 1, "{verdict}");
}

#[tokio::test]
async fn a_task_that_the_dump_does_not_find_is_lost() {
    let folder = tempfile::tempdir().unwrap();
    let session = Session::open(folder.path());
    session
        .submit("a", |job| job.after(Duration::from_hours(1)))
        .await;
    session.dump(&[]).await;
    let verdict = verdict(folder.path());
    assert!(verdict.breaks(Promise::NeverLost), "{verdict}");
    assert_eq!(verdict.broken.len(), 1, "{verdict}");
}

#[tokio::test]
async fn pauses_and_purges_of_a_sound_store_are_recorded_and_hold() {
    let folder = tempfile::tempdir().unwrap();
    let session = Session::open(folder.path());
    let (mail, store) = (&session.task_type, &session.store);
    session.submit("a", |job| job).await;
    store.pause(mail, None).await.unwrap();
    assert_eq!(session.work(None, done).await, 0);
    store.resume(mail).await.unwrap();
    assert_eq!(session.work(None, again).await, 1);
    assert_eq!(session.work(None, dead).await, 1);
    let hour = Duration::from_hours(1);
    session.submit("b", |job| job.after(hour)).await;
    let removed = store.purge(mail, TaskState::Scheduled).await.unwrap();
    assert_eq!(removed, 1);
    session.dump(&["a", "b"]).await;
    let verdict = verdict(folder.path());
    assert_eq!(verdict.outcome(), Outcome::Held, "{verdict}");
    let text = verdict.to_string();
    assert!(
        text.contains("gone by purges of mail, Scheduled: 1"),
        "{text}"
    );
}

/// The pause is answered, and the store that hands tasks out has not heard of it.
#[tokio::test]
async fn a_pause_that_is_not_kept_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let session = Session::open(folder.path());
    let deaf = RecordedStore::new(memory(), session.recorder.clone());
    session.submit("a", |job| job).await;
    deaf.pause(&session.task_type, None).await.unwrap();
    session.work(None, done).await;
    session.dump(&["a"]).await;
    let verdict = verdict(folder.path());
    assert!(verdict.breaks(Promise::NeverEarly), "{verdict}");
    assert_eq!(verdict.broken.len(), 1, "{verdict}");
}

#[tokio::test]
async fn a_purge_explains_no_more_than_it_removed() {
    let folder = tempfile::tempdir().unwrap();
    let session = Session::open(folder.path());
    let hour = Duration::from_hours(1);
    session.submit("a", |job| job.after(hour)).await;
    session.submit("b", |job| job.after(hour)).await;
    let (mail, scheduled) = (&session.task_type, TaskState::Scheduled);
    let _ = session
        .inner
        .cancel(mail, &TaskId::new("a").unwrap())
        .await
        .unwrap();
    assert_eq!(session.store.purge(mail, scheduled).await.unwrap(), 1);
    session.dump(&[]).await;
    let verdict = verdict(folder.path());
    assert!(verdict.breaks(Promise::NeverLost), "{verdict}");
    assert_eq!(verdict.broken.len(), 1, "{verdict}");
}

/// Somebody else has claimed and failed the task, and nobody has recorded it.
#[tokio::test]
async fn a_trail_that_the_record_does_not_explain_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let session = Session::open(folder.path());
    session.submit("a", |job| job).await;
    session.submit("b", |job| job).await;
    let request = ClaimRequest::new(1, LOCK, SystemClock.now());
    let bucket = &session.bucket;
    let claimed = session.inner.claim(bucket, &request).await.unwrap();
    let settlements = claimed.tasks.into_iter().map(|task| {
        let end = AttemptEnd::Retry {
            after: Duration::from_hours(1),
            error: "not recorded".to_owned(),
            succeeded: Vec::new(),
        };
        Settlement::new(task.lock, end)
    });
    session
        .inner
        .settle(bucket, settlements.collect())
        .await
        .unwrap();
    session.work(None, done).await;
    session.dump(&["a", "b"]).await;
    let verdict = verdict(folder.path());
    assert!(verdict.breaks(Promise::Structure), "{verdict}");
    assert_eq!(verdict.broken.len(), 1, "{verdict}");
}
