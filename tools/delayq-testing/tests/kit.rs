//! The test kit, as the tests of an application use it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use async_trait::async_trait;
use delayq_core::{Error, TaskWorker};
use delayq_plugin::{
    Component, DelayQueueJob, DelayQueuePluginBuilder, Json, StartError, TaskContext, TaskError,
    TaskResult, TaskSubmitService, WorkerOptions, task_worker,
};
use delayq_testing::{
    Fault, TestQueue, assert_dead, assert_done, assert_not_scheduled, assert_scheduled,
};

type TestResult = Result<(), Box<dyn std::error::Error>>;

/// How often a worker ran.
#[derive(Clone, Default)]
struct Runs(Arc<AtomicU32>);

impl Runs {
    fn count(&self) -> u32 {
        self.0.load(Ordering::Relaxed)
    }
}

#[task_worker(type = "order.cancel")]
async fn cancel(order: &str, runs: Component<Runs>) -> TaskResult {
    runs.0.fetch_add(1, Ordering::Relaxed);
    match order {
        "bad" => Err(TaskError::dead("no such order")),
        _ => Ok(()),
    }
}

/// Fails twice: an attempt at 0 s, 1 s and 3 s.
#[task_worker(type = "flaky", retry(max = 3, base = "1s", jitter = 0.0))]
async fn flaky(cx: &TaskContext) -> TaskResult {
    if cx.attempt() < 3 {
        return Err(TaskError::retry(format!("attempt {}", cx.attempt())));
    }
    Ok(())
}

/// Sends a cancellation for a week later, and one for now, of another type.
#[task_worker(type = "order.place")]
async fn place(Json(order): Json<u32>, tasks: Component<TaskSubmitService>) -> TaskResult {
    let cancel = cancel::job("lamp")?.id(format!("{order}"));
    tasks.send(cancel.after("7d")).await?;
    tasks
        .send(pattern::job("pattern.mail", "x")?.id(format!("{order}")))
        .await?;
    Ok(())
}

#[task_worker(type = "pattern.*")]
async fn pattern(_text: &str) {}

#[task_worker(type = "blocks", blocking)]
fn blocks(_text: &str) {}

fn with(runs: &Runs) -> impl FnOnce(DelayQueuePluginBuilder) -> DelayQueuePluginBuilder {
    let runs = runs.clone();
    move |builder| builder.component(runs)
}

#[tokio::test]
async fn time_passes_from_due_time_to_due_time() -> TestResult {
    let runs = Runs::default();
    let queue = TestQueue::start(with(&runs)).await?;
    queue
        .send(cancel::job("lamp")?.id("a").after("30m"))
        .await?;
    queue.send(flaky::job()?.id("f").after("10m")).await?;
    assert_scheduled!(queue, cancel::TASK_TYPE, "a", after = "30m");
    let start = queue.now();

    queue.advance("10m").await;
    let retry = assert_scheduled!(queue, "flaky", "f", after = "1s");
    assert_eq!(retry.history.last_error.as_deref(), Some("attempt 1"));
    queue.advance("19m").await;
    assert_done!(queue, "flaky", "f");
    assert_eq!(runs.count(), 0, "never early");
    queue.advance("1m").await;
    assert_eq!(
        (runs.count(), queue.now()),
        (1, start.plus(delayq_core::minutes(30)))
    );
    queue.advance("2d").await;
    assert_done!(queue, "order.cancel", "a");
    assert_not_scheduled!(queue, "order.cancel");
    Ok(())
}

#[tokio::test]
async fn what_a_worker_sends_runs_too_and_patterns_and_blocking_workers_do() -> TestResult {
    let runs = Runs::default();
    let queue = TestQueue::start(with(&runs)).await?;
    queue.send(place::job(&7)?).await?;
    queue.send(blocks::job("x")?.id("b")).await?;
    queue.run_due().await;
    assert_done!(queue, "pattern.mail", "7");
    assert_done!(queue, "blocks", "b");
    assert_scheduled!(queue, "order.cancel", "7", after = "7d");
    queue.advance("8d").await;
    assert_done!(queue, "order.cancel", String::from("7"));
    assert_eq!(queue.scheduled("order.cancel").await, []);
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_works_on_several_threads() -> TestResult {
    let runs = Runs::default();
    let queue = TestQueue::start(with(&runs)).await?;
    for n in 0..50_u32 {
        queue.send(place::job(&n)?.after("1m")).await?;
    }
    queue.advance("8d").await;
    assert_eq!(runs.count(), 50);
    Ok(())
}

#[tokio::test]
async fn faults_are_planned_call_by_call() -> TestResult {
    let runs = Runs::default();
    let queue = TestQueue::start(with(&runs)).await?;
    queue.fail_next("submit", Fault::AnswerLost);
    let job = cancel::job("lamp")?.id("a").after("1m");
    let lost = queue.send(job.clone()).await.unwrap_err();
    assert!(lost.is_indeterminate());
    queue.send(job).await?;
    assert_eq!(
        queue.scheduled("order.cancel").await.len(),
        1,
        "the repeat is recognised"
    );

    queue.fail_nth("settle", 2, Fault::NotApplied);
    queue.send(cancel::job("bad")?.id("b").after("2m")).await?;
    queue.advance("3m").await;
    assert_done!(queue, "order.cancel", "a");
    assert_dead!(queue, "order.cancel", "b", contains = "no such");
    assert_eq!(runs.count(), 2, "a settlement is repeated, not the work");
    assert_eq!(queue.dead("order.cancel").await.len(), 1);
    Ok(())
}

#[tokio::test]
async fn inline_a_send_returns_what_the_worker_says() -> TestResult {
    let runs = Runs::default();
    let queue = TestQueue::inline(with(&runs)).await?;
    queue.send(place::job(&7)?.id("p").after("1d")).await?;
    assert_eq!(
        runs.count(),
        1,
        "the cancellation, which place sent for a week later"
    );
    for task_type in ["order.place", "order.cancel"] {
        assert_not_scheduled!(queue, task_type);
    }
    let failed = queue
        .tasks()
        .send(cancel::job("bad")?.id("b").after("1h"))
        .await;
    assert!(matches!(&failed, Err(Error::TaskFailed { error, .. }) if error == "no such order"));
    let failed = queue.send(flaky::job()?.id("f")).await.unwrap_err();
    assert!(
        failed.to_string().ends_with("has failed: attempt 1"),
        "{failed}"
    );
    assert_dead!(queue, "flaky", "f");

    queue
        .send(DelayQueueJob::raw("elsewhere", "x").id("e").after("1h"))
        .await?;
    assert_scheduled!(queue, "elsewhere", "e", after = "1h");
    Ok(())
}

#[tokio::test]
async fn a_store_of_ones_own_is_refused_and_registered_workers_can_be_left_out() -> TestResult {
    let refused = TestQueue::start(|builder| builder.url("memory:")).await;
    assert!(matches!(refused, Err(StartError::OptionsOfStore { .. })));
    let only = WorkerOptions::DEFAULT;
    let queue = TestQueue::start(|builder| {
        builder
            .without_registered_workers()
            .worker("only", only, Nothing)
    });
    let queue = queue.await?;
    assert_eq!(queue.plugin().served_types().len(), 1);
    Ok(())
}

struct Nothing;

#[async_trait]
impl TaskWorker for Nothing {
    async fn invoke(&self, _message: &str, _cx: &TaskContext) -> TaskResult {
        Ok(())
    }
}

/// What a failed assertion says.
async fn words(check: impl Future<Output = ()> + Send + 'static) -> String {
    let failed = tokio::spawn(check)
        .await
        .expect_err("it fails")
        .into_panic();
    *failed.downcast::<String>().expect("it says why")
}

#[tokio::test]
async fn a_failed_assertion_shows_what_is_there_instead() -> TestResult {
    let queue = Arc::new(TestQueue::start(with(&Runs::default())).await?);
    queue.send(cancel::job("bad")?.id("b")).await?;
    queue.send(cancel::job("lamp")?.id("l")).await?;
    queue
        .send(cancel::job("lamp")?.id("a").after("30m"))
        .await?;
    queue.run_due().await;

    let test = Arc::clone(&queue);
    let said =
        words(async move { drop(assert_scheduled!(test, "order.cancel", "a", after = "1h")) });
    assert_eq!(
        said.await,
        "task a of type order.cancel is due in 30m, expected in 1h"
    );
    let test = Arc::clone(&queue);
    let said = words(async move { assert_done!(test, "order.cancel", "c") }).await;
    assert_eq!(
        said,
        "task c of type order.cancel is not known, expected done; others of its type: a is \
         scheduled, due in 30m, b is dead after attempt 1: no such order, l is done"
    );
    let test = Arc::clone(&queue);
    let dead = async move { drop(assert_dead!(test, "order.cancel", "b", contains = "boom")) };
    assert!(
        words(dead)
            .await
            .contains("\"no such order\", which does not contain \"boom\"")
    );
    let test = Arc::clone(&queue);
    let said = words(async move { assert_not_scheduled!(test, "order.cancel", "a") }).await;
    assert!(
        said.starts_with("task a of type order.cancel is scheduled, due in 30m"),
        "{said}"
    );
    let test = Arc::clone(&queue);
    let said = words(async move { drop(assert_dead!(test, "order.cancle", "a")) }).await;
    assert!(
        said.contains("the types are") && said.contains("order.cancel"),
        "{said}"
    );
    Ok(())
}
