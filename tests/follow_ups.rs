//! `cx.then(job)`: what a worker sends with the end of its task, on the memory store.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use delayq_plugin::{
    DelayQueueJob, Delivery, RetryPolicy, TaskError, TaskInfo, TaskState, TaskSubmitService,
    WorkerOptions, hours, minutes, seconds,
};
use delayq_testing::{Fault, FaultyStore};
use delayq_tests::rig::{Rig, Start, info, reaches, send, until};

const RETRYING: WorkerOptions = WorkerOptions {
    retry: RetryPolicy {
        jitter_percent: 0,
        ..RetryPolicy::DEFAULT
    },
    ..WorkerOptions::DEFAULT
};

fn next(message: &str) -> DelayQueueJob {
    DelayQueueJob::raw("next", message).after(hours(1))
}

async fn waiting(tasks: &TaskSubmitService) -> Vec<TaskInfo> {
    let page = tasks.list("next", TaskState::Scheduled, None, 100).await;
    page.expect("the store answers").tasks
}

/// What follows an attempt is what that attempt recorded, and is there when the task has ended.
#[tokio::test]
async fn follow_ups_are_sent_with_the_end_of_a_task_and_never_after_a_failure() {
    let rig = Rig::default();
    let plugin = rig
        .start(RETRYING, |start: Start| async move {
            start.cx.then(next("first"))?;
            start.cx.then(next("own").id("own-42"))?;
            match start.cx.attempt() {
                1 => Err(TaskError::retry("after the work")),
                _ => Ok(()),
            }
        })
        .await;
    let tasks = plugin.submit_service();
    send(&tasks, "a", Duration::ZERO).await;
    reaches(&tasks, "a", TaskState::Scheduled).await;
    until("the failure", || async {
        let failures = info(&tasks, "a").await.history.failures;
        (failures == 1).then_some(())
    })
    .await;
    assert_eq!(waiting(&tasks).await.len(), 0, "it failed");

    rig.pass(&plugin, seconds(1)).await;
    reaches(&tasks, "a", TaskState::Done).await;
    let mut ids: Vec<_> = waiting(&tasks)
        .await
        .into_iter()
        .map(|one| one.id)
        .collect();
    ids.sort();
    assert_eq!(ids.len(), 2);
    assert!(ids[0].as_str().starts_with("a+0."), "{ids:?}");
    assert_eq!(ids[1].as_str(), "own-42");
}

/// A crash between the send and the end: the repeat records the same, with another message even,
/// while the follow-up of the first attempt waits, and after it has ended.
#[tokio::test]
async fn a_crash_between_the_follow_up_and_the_end_doubles_nothing() {
    for has_ended in [false, true] {
        let mut rig = Rig::default();
        let store = Arc::clone(&rig.store);
        let faulty = FaultyStore::new(store.clone(), |call| match call {
            "settle" | "extend" => Fault::NotApplied,
            _ => Fault::None,
        });
        let crash = faulty.crash();
        rig.store = Arc::new(faulty);
        let script = |start: Start| async move {
            start.cx.then(next(&format!("of {}", start.cx.attempt())))?;
            Ok(())
        };
        let crashed = rig.start(RETRYING, script).await;
        let tasks = TaskSubmitService::new(Arc::clone(&store));
        send(&tasks, "a", Duration::ZERO).await;
        rig.next().await;
        let first = until("the follow-up", || async { waiting(&tasks).await.pop() }).await;
        // A claim of the old process after the leap of the clock would hold the task for good.
        crash.happen_between_calls().await;
        drop(crashed);
        if has_ended {
            let cancelled = tasks.cancel("next", first.id.as_str()).await;
            assert_eq!(cancelled, Ok(delayq_plugin::CancelOutcome::Cancelled));
        }

        rig.store = store;
        rig.clock.advance(seconds(31));
        let plugin = rig.start(RETRYING, script).await;
        assert_eq!(rig.next().await.cx.attempt(), 2);
        reaches(&tasks, "a", TaskState::Done).await;
        assert_eq!(waiting(&tasks).await.len(), usize::from(!has_ended));
        plugin.shutdown(Duration::ZERO).await;
    }
}

#[tokio::test]
async fn an_outage_repeats_the_send_and_not_the_work() {
    for fault in [Fault::NotApplied, Fault::AnswerLost] {
        let mut rig = Rig::default();
        let failures = AtomicU32::new(0);
        // The first submit is that of the task.
        rig.store = Arc::new(FaultyStore::new(
            rig.store.clone(),
            move |call| match call {
                "submit" if (1..3).contains(&failures.fetch_add(1, Ordering::Relaxed)) => fault,
                _ => Fault::None,
            },
        ));
        let plugin = rig
            .start(RETRYING, |start: Start| async move {
                Ok(start.cx.then(next("m"))?)
            })
            .await;
        let tasks = plugin.submit_service();
        send(&tasks, "a", Duration::ZERO).await;
        rig.next().await;
        until("the end", || async {
            // The wait between two sends may begin at any time.
            rig.clock.advance(Duration::from_millis(100));
            (info(&tasks, "a").await.state == TaskState::Done).then_some(())
        })
        .await;
        assert!(!rig.has_started(), "{fault:?}");
        assert_eq!(waiting(&tasks).await.len(), 1, "{fault:?}");
    }
}

#[tokio::test]
async fn a_follow_up_that_is_refused_fails_the_attempt_and_says_why() {
    let refused = [
        ("task type", DelayQueueJob::raw("no type", "m")),
        ("the task itself", DelayQueueJob::raw("job", "m").id("a")),
        ("running", next("other").id("busy").replace()),
    ];
    for (why, job) in refused {
        let rig = Rig::default();
        let busy = rig.worker(|start: Start| async move {
            start.cx.cancelled().await;
            Ok(())
        });
        let worker = rig.worker(move |start: Start| {
            let job = job.clone();
            async move { Ok(start.cx.then(job)?) }
        });
        let builder = rig.builder().worker("job", RETRYING, worker);
        let plugin = builder
            .worker("next", RETRYING, busy)
            .start()
            .await
            .unwrap();
        let tasks = plugin.submit_service();
        let now = DelayQueueJob::raw("next", "m").id("busy");
        tasks.send(now).await.unwrap();
        until("the running one", || async {
            let found = tasks.find("next", "busy").await.unwrap()?;
            (found.state == TaskState::Running).then_some(())
        })
        .await;
        send(&tasks, "a", Duration::ZERO).await;
        let error = until("the error", || async {
            info(&tasks, "a").await.history.last_error
        })
        .await;
        assert!(
            error.contains(why) && error.contains("follow-up"),
            "{error}"
        );
        plugin.shutdown(Duration::ZERO).await;
    }
}

/// Its tasks have ended before they start: there is no end that the send could go with.
#[tokio::test]
async fn an_at_most_once_task_has_no_follow_ups() {
    let mut rig = Rig::default();
    let (sender, mut refused) = tokio::sync::mpsc::unbounded_channel();
    let options = WorkerOptions {
        delivery: Delivery::AtMostOnce,
        ..WorkerOptions::DEFAULT
    };
    let plugin = rig
        .start(options, move |start: Start| {
            let _ = sender.send(start.cx.then(next("m")).unwrap_err().to_string());
            async { Ok(()) }
        })
        .await;
    send(&plugin.submit_service(), "a", Duration::ZERO).await;
    rig.next().await;
    let error = refused.recv().await.unwrap();
    assert!(error.contains("Component<TaskSubmitService>"), "{error}");
}

/// Each of several workers sends its own, when it has succeeded, and none of them twice.
#[tokio::test]
async fn several_workers_of_a_type_have_follow_ups_of_their_own() {
    struct Named<W>(W);

    #[async_trait::async_trait]
    impl<W: delayq_plugin::TaskWorker> delayq_plugin::TaskWorker for Named<W> {
        async fn invoke(
            &self,
            message: &str,
            cx: &delayq_plugin::TaskContext,
        ) -> delayq_plugin::TaskResult {
            self.0.invoke(message, cx).await
        }
    }

    let rig = Rig::default();
    let good = rig.worker(|start: Start| async move { Ok(start.cx.then(next("good"))?) });
    let late = rig.worker(|start: Start| async move {
        start.cx.then(next("late"))?;
        match start.cx.attempt() {
            1 => Err(TaskError::retry("later")),
            _ => Ok(()),
        }
    });
    let builder = rig.builder().worker("job", RETRYING, good);
    let builder = builder.worker("job", RETRYING, Named(late));
    let plugin = builder.start().await.unwrap();
    let tasks = plugin.submit_service();
    send(&tasks, "a", Duration::ZERO).await;
    until("the first follow-up", || async {
        let failures = info(&tasks, "a").await.history.failures;
        (failures == 1).then_some(())
    })
    .await;
    assert_eq!(waiting(&tasks).await.len(), 1);
    rig.pass(&plugin, minutes(1)).await;
    reaches(&tasks, "a", TaskState::Done).await;
    assert_eq!(waiting(&tasks).await.len(), 2);
}

/// The end of the window is a part of its id, so that it is another task.
#[tokio::test]
async fn a_throttled_follow_up_may_have_the_id_of_its_task_before_the_window() {
    let mut rig = Rig::default();
    let plugin = rig
        .start(RETRYING, |start: Start| async move {
            if !start.cx.is_repeat() {
                return Err(TaskError::release(seconds(1)));
            }
            let again = DelayQueueJob::raw("job", "m").id("a").throttle("1h");
            Ok(start.cx.then(again)?)
        })
        .await;
    let tasks = plugin.submit_service();
    send(&tasks, "a", Duration::ZERO).await;
    rig.next().await;
    reaches(&tasks, "a", TaskState::Scheduled).await;
    rig.pass(&plugin, seconds(1)).await;
    let repeat = rig.next().await.cx;
    assert_eq!((repeat.attempt(), repeat.is_repeat()), (1, true));
    reaches(&tasks, "a", TaskState::Done).await;
    let page = tasks.list("job", TaskState::Scheduled, None, 9).await;
    assert!(page.unwrap().tasks[0].id.as_str().starts_with("a@"));
}
