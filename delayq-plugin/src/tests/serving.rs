//! Workers that come and go while a plugin runs.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use delayq_core::{
    DelayQueueJob, RetryPolicy, TaskContext, TaskResult, TaskState, TaskWorker, VirtualClock,
    WorkerOptions,
};
use tokio::sync::{Semaphore, mpsc};

use super::{Stubborn, builder, memory, until};
use crate::DelayQueuePlugin;

const GRACE: Duration = Duration::from_mins(1);

/// Says what it ran, under its name.
struct Named(&'static str, mpsc::UnboundedSender<String>);

#[async_trait]
impl TaskWorker for Named {
    async fn invoke(&self, _message: &str, cx: &TaskContext) -> TaskResult {
        let _ = self.1.send(format!("{} {}", self.0, cx.task_type()));
        Ok(())
    }
}

async fn open(clock: &VirtualClock) -> DelayQueuePlugin {
    let builder = builder(&memory(clock), clock).workers_later();
    let plugin = builder.on_application_runtime().start();
    plugin.await.unwrap()
}

async fn send(plugin: &DelayQueuePlugin, task_type: &str, id: &str) {
    let job = DelayQueueJob::raw(task_type, "x").id(id);
    plugin.submit_service().send(job).await.unwrap();
}

async fn state(plugin: &DelayQueuePlugin, id: &str) -> Option<TaskState> {
    let task = plugin.submit_service().find("job", id).await.unwrap();
    task.map(|task| task.state)
}

#[tokio::test]
async fn a_worker_comes_is_replaced_and_goes_and_no_task_is_lost() {
    let clock = VirtualClock::default();
    let plugin = open(&clock).await;
    let (sender, mut ran) = mpsc::unbounded_channel();
    let named = |name| Named(name, sender.clone());
    send(&plugin, "job", "before").await;
    plugin
        .serve("job", WorkerOptions::DEFAULT, named("first"))
        .await
        .unwrap();
    assert_eq!(ran.recv().await.unwrap(), "first job");
    plugin
        .serve("job", WorkerOptions::DEFAULT, named("second"))
        .await
        .unwrap();
    send(&plugin, "job", "replaced").await;
    assert_eq!(ran.recv().await.unwrap(), "second job");
    until(async || state(&plugin, "replaced").await == Some(TaskState::Done)).await;

    assert!(plugin.unserve("job", GRACE).await.unwrap());
    assert!(!plugin.unserve("job", GRACE).await.unwrap());
    assert!(plugin.served_types().is_empty());
    send(&plugin, "job", "unserved").await;
    clock.advance(GRACE);
    // A pattern serves it, and what comes for other types: one wakes it, the other is found.
    plugin
        .serve("*", WorkerOptions::DEFAULT, named("all"))
        .await
        .unwrap();
    assert_eq!(ran.recv().await.unwrap(), "all job");
    send(&plugin, "other", "new").await;
    assert_eq!(ran.recv().await.unwrap(), "all other");
    // The type itself is closer than the pattern, and the pattern is left for it afterwards.
    plugin
        .serve("other", WorkerOptions::DEFAULT, named("close"))
        .await
        .unwrap();
    send(&plugin, "other", "close").await;
    assert_eq!(ran.recv().await.unwrap(), "close other");
    assert!(plugin.unserve("other", GRACE).await.unwrap());
    send(&plugin, "other", "open").await;
    assert_eq!(ran.recv().await.unwrap(), "all other");
    plugin.shutdown(Duration::ZERO).await;
    let late = plugin.serve("late", WorkerOptions::DEFAULT, named("late"));
    assert!(late.await.is_err());
}

#[tokio::test]
async fn what_runs_finishes_before_the_type_is_left_and_is_given_back_after_the_grace_time() {
    let clock = VirtualClock::default();
    let plugin = Arc::new(open(&clock).await);
    let (starts, mut started) = mpsc::unbounded_channel();
    let gate = Arc::new(Semaphore::new(0));
    let stubborn = || Stubborn {
        starts: starts.clone(),
        gate: Arc::clone(&gate),
    };
    let options = WorkerOptions {
        concurrency: 1,
        ..WorkerOptions::DEFAULT
    };
    plugin.serve("job", options, stubborn()).await.unwrap();
    send(&plugin, "job", "runs").await;
    send(&plugin, "job", "waits").await;
    assert_eq!(started.recv().await, Some(1));
    let leaver = Arc::clone(&plugin);
    let left = tokio::spawn(async move { leaver.unserve("job", GRACE).await });
    until(async || plugin.served_types().is_empty()).await;
    // Served again while the former handler still waits for its worker: by the next handler.
    plugin.serve("job", options, stubborn()).await.unwrap();
    assert_eq!(state(&plugin, "waits").await, Some(TaskState::Scheduled));
    assert!(!left.is_finished());
    gate.add_permits(1);
    assert!(left.await.unwrap().unwrap());
    assert_eq!(state(&plugin, "runs").await, Some(TaskState::Done));
    assert_eq!(started.recv().await, Some(1));

    let leaver = Arc::clone(&plugin);
    let left = tokio::spawn(async move { leaver.unserve("job", GRACE).await });
    until(async || plugin.served_types().is_empty()).await;
    assert_eq!(state(&plugin, "waits").await, Some(TaskState::Running));
    until(async || {
        clock.advance(Duration::from_millis(100));
        left.is_finished()
    })
    .await;
    assert_eq!(state(&plugin, "waits").await, Some(TaskState::Scheduled));
    let task = plugin.submit_service().find("job", "waits").await.unwrap();
    assert_eq!(task.unwrap().attempt, 0, "no attempt was burned");
    plugin.shutdown(Duration::ZERO).await;
}

#[tokio::test]
async fn a_worker_that_cannot_be_is_refused_and_other_options_hold_at_once() {
    let clock = VirtualClock::default();
    let (sender, mut ran) = mpsc::unbounded_channel();
    let named = |name| Named(name, sender.clone());
    let store = memory(&clock);
    let plugin = builder(&store, &clock)
        .worker("fixed", WorkerOptions::DEFAULT, named("fixed"))
        .on_application_runtime();
    let plugin = plugin.start().await.unwrap();
    let twice = plugin.serve("fixed", WorkerOptions::DEFAULT, named("twice"));
    let said = twice.await.unwrap_err().to_string();
    assert!(said.contains("since the start"), "{said}");
    let pooled = WorkerOptions {
        pool: Some("mail"),
        ..WorkerOptions::DEFAULT
    };
    let said = plugin.serve("job", pooled, named("pooled")).await;
    assert!(said.unwrap_err().to_string().contains("no pool"));
    let none = WorkerOptions {
        concurrency: 0,
        ..WorkerOptions::DEFAULT
    };
    assert!(plugin.serve("job", none, named("none")).await.is_err());
    let bad = plugin.serve("a b", WorkerOptions::DEFAULT, named("bad"));
    assert!(bad.await.is_err() && plugin.unserve("a b", GRACE).await.is_err());
    assert!(!plugin.unserve("fixed", GRACE).await.unwrap());

    let bounded = |max_pending| WorkerOptions {
        max_pending,
        retry: RetryPolicy::NEVER,
        ..WorkerOptions::DEFAULT
    };
    let job = plugin.serve("job", bounded(Some(7)), named("job"));
    job.await.unwrap();
    let bound = async || {
        store
            .stats(&"job".parse().unwrap())
            .await
            .unwrap()
            .max_pending
    };
    assert_eq!(bound().await, Some(7));
    let job = plugin.serve("job", bounded(Some(9)), named("job"));
    job.await.unwrap();
    until(async || {
        clock.advance(Duration::from_secs(1));
        bound().await == Some(9)
    })
    .await;
    send(&plugin, "job", "one").await;
    assert_eq!(ran.recv().await.unwrap(), "job job");
    plugin.shutdown(Duration::ZERO).await;
}
