//! Middleware around sends and runs: its order, its panics, and what it leaves out.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use delayq_plugin::{
    DelayQueueJob, DelayQueuePluginBuilder, Error, FailureCause, Middleware, Next, Recurring,
    Result, RetryPolicy, TaskContext, TaskEventKind, TaskResult, TaskWorker, WorkerOptions,
    seconds,
};
use delayq_testing::{TestQueue, assert_dead, assert_done, assert_not_scheduled};
use delayq_tests::rig::{Rig, until};

/// What happened, in order.
#[derive(Clone, Default)]
struct Journal(Arc<Mutex<Vec<String>>>);

impl Journal {
    fn note(&self, what: impl Into<String>) {
        self.0
            .lock()
            .expect("no test panics with it")
            .push(what.into());
    }

    fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().expect("no test panics with it"))
    }
}

/// Notes what passes through it; adds its name to the headers.
struct Noting(&'static str, Journal);

#[async_trait]
impl Middleware for Noting {
    async fn on_submit(&self, job: DelayQueueJob) -> Result<DelayQueueJob> {
        self.1.note(format!("{} sends", self.0));
        if job.task_id() == "refused" {
            return Err(Error::invalid("tenant", "none"));
        }
        Ok(job.header(self.0, "seen"))
    }

    async fn run(&self, message: &[u8], cx: &TaskContext, next: Next<'_>) -> TaskResult {
        self.1.note(format!("{} begins", self.0));
        let result = next.run(message, cx).await;
        self.1.note(format!("{} ends: {}", self.0, result.is_ok()));
        result
    }
}

/// Answers and panics in the place of workers.
struct Instead;

#[async_trait]
impl Middleware for Instead {
    async fn run(&self, message: &[u8], cx: &TaskContext, next: Next<'_>) -> TaskResult {
        match cx.id().as_str() {
            "left-out" => Ok(()),
            "panics" => panic!("the middleware fell"),
            _ => next.run(message, cx).await,
        }
    }
}

struct Worker(Journal);

#[async_trait]
impl TaskWorker for Worker {
    async fn invoke(&self, message: &str, cx: &TaskContext) -> TaskResult {
        let headers: Vec<_> = cx.headers().keys().map(String::as_str).collect();
        self.0
            .note(format!("{message} with {}", headers.join(" and ")));
        Ok(())
    }
}

fn build(
    journal: &Journal,
    options: WorkerOptions,
) -> impl FnOnce(DelayQueuePluginBuilder) -> DelayQueuePluginBuilder {
    let journal = journal.clone();
    move |builder| {
        let noting = |name| Noting(name, journal.clone());
        let builder =
            builder
                .without_registered_workers()
                .worker("job", options, Worker(journal.clone()));
        builder
            .middleware(noting("outer"))
            .middleware(noting("inner"))
            .middleware(Instead)
    }
}

fn job(id: &str) -> DelayQueueJob {
    DelayQueueJob::raw("job", "work").id(id)
}

#[tokio::test]
async fn the_first_one_is_the_outermost_and_headers_come_back() {
    let journal = Journal::default();
    for blocking in [false, true] {
        let options = WorkerOptions {
            blocking,
            ..WorkerOptions::DEFAULT
        };
        let queue = TestQueue::start(build(&journal, options)).await.unwrap();
        queue.send(job("a")).await.unwrap();
        queue.run_due().await;
        assert_done!(queue, "job", "a");
        assert_eq!(
            journal.take(),
            [
                "outer sends",
                "inner sends",
                "outer begins",
                "inner begins",
                "work with inner and outer",
                "inner ends: true",
                "outer ends: true",
            ]
        );
    }
}

#[tokio::test]
async fn a_refused_job_is_not_sent_and_holds_up_no_other() {
    let journal = Journal::default();
    let queue = TestQueue::start(build(&journal, WorkerOptions::DEFAULT))
        .await
        .unwrap();
    let mut results = queue.tasks().send_all(vec![job("refused"), job("a")]).await;
    assert!(results.pop().unwrap().is_ok());
    assert_eq!(
        results.pop().unwrap().unwrap_err(),
        Error::invalid("tenant", "none")
    );
    queue.run_due().await;
    assert_done!(queue, "job", "a");
    assert!(queue.find("job", "refused").await.is_none());
    assert_not_scheduled!(queue, "job");
}

#[tokio::test]
async fn its_answer_and_its_panic_are_the_workers() {
    let journal = Journal::default();
    let retry = RetryPolicy::NEVER;
    let options = WorkerOptions {
        retry,
        ..WorkerOptions::DEFAULT
    };
    let queue = TestQueue::start(build(&journal, options)).await.unwrap();
    let mut events = queue.events();
    queue.send(job("left-out")).await.unwrap();
    queue.send(job("panics")).await.unwrap();
    queue.run_due().await;
    assert_done!(queue, "job", "left-out");
    assert_dead!(queue, "job", "panics", contains = "the middleware fell");
    assert!(
        !journal
            .take()
            .iter()
            .any(|line| line.starts_with("work with"))
    );
    drop(queue);
    let mut causes = Vec::new();
    while let Some(event) = events.next().await {
        if let TaskEventKind::Failed { cause, .. } = event.kind {
            causes.push(cause);
        }
    }
    assert_eq!(causes, [FailureCause::Panic]);
}

tokio::task_local! {
    static TENANT: String;
}

/// As in the guide: the tenant of the run goes with what is sent from it.
struct Tenant;

#[async_trait]
impl Middleware for Tenant {
    async fn on_submit(&self, job: DelayQueueJob) -> Result<DelayQueueJob> {
        match TENANT.try_with(String::clone) {
            Ok(tenant) => Ok(job.header("tenant", tenant)),
            Err(_) => Ok(job),
        }
    }

    async fn run(&self, message: &[u8], cx: &TaskContext, next: Next<'_>) -> TaskResult {
        let Some(tenant) = cx.header("tenant") else {
            return next.run(message, cx).await;
        };
        let result = TENANT.scope(tenant.to_owned(), next.run(message, cx)).await;
        cx.then(DelayQueueJob::raw("job", "end").id("of-the-middleware"))?;
        result
    }
}

/// Has `second` follow.
struct First;

#[async_trait]
impl TaskWorker for First {
    async fn invoke(&self, message: &str, cx: &TaskContext) -> TaskResult {
        if message == "first" {
            cx.then(DelayQueueJob::raw("job", "second").id("second").after("1h"))?;
        }
        Ok(())
    }
}

#[tokio::test]
async fn a_follow_up_passes_once_within_the_run_of_its_task() {
    let journal = Journal::default();
    let (noting, options) = (Noting("noting", journal.clone()), WorkerOptions::DEFAULT);
    let queue = TestQueue::start(move |builder| {
        let builder = builder.without_registered_workers();
        let builder = builder.worker("job", options, First);
        builder.middleware(noting).middleware(Tenant)
    });
    let queue = queue.await.unwrap();
    let job = DelayQueueJob::raw("job", "first").id("first");
    queue.send(job.header("tenant", "ada")).await.unwrap();
    queue.run_due().await;
    assert_eq!(
        journal.take(),
        [
            "noting sends",
            "noting begins",
            "noting sends",
            "noting ends: true",
            "noting sends",
            "noting begins",
            "noting ends: true",
        ]
    );
    let second = queue.find("job", "second").await.unwrap();
    assert_eq!(second.headers["tenant"], "ada");
    assert_done!(queue, "job", "of-the-middleware");
}

/// Panics at the second send.
#[derive(Default)]
struct PanicsOnce(AtomicU32);

#[async_trait]
impl Middleware for PanicsOnce {
    async fn on_submit(&self, job: DelayQueueJob) -> Result<DelayQueueJob> {
        let earlier = self.0.fetch_add(1, Ordering::Relaxed);
        assert_ne!(earlier, 1, "the middleware fell");
        Ok(job)
    }
}

#[tokio::test]
async fn a_panic_at_an_occurrence_does_not_end_the_search_for_the_next_one() {
    let rig = Rig::default();
    let worker = rig.worker(|_| async { Ok(()) });
    let builder = rig.builder().worker("job", WorkerOptions::DEFAULT, worker);
    let builder = builder.recurring(Recurring::new("job", "1d").unwrap());
    let started = builder.middleware(PanicsOnce::default()).start().await;
    let plugin = started.unwrap();
    let tasks = plugin.submit_service();
    let next = async || tasks.recurring().await.unwrap().remove(0).next_id;
    let first = next().await.unwrap();
    let _ = tasks.cancel("job", first.as_str()).await.unwrap();
    until("the next occurrence", || async {
        rig.pass(&plugin, seconds(61)).await;
        next().await
    })
    .await;
}
