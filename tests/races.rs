//! What falls together: an answer, a result or a shutdown that comes in the very moment of
//! something else. A gate holds a handler inside one of its calls while the test lets the other
//! thing happen.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "what a test must not do in silence, it does by panicking"
)]

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

use delayq_plugin::{
    DelayQueuePlugin, Delivery, LatePolicy, OnLate, RetryPolicy, TaskState, TaskSubmitService,
    WorkerOptions, hours, millis, minutes, seconds,
};
use delayq_testing::{Fault, FaultyStore};
use delayq_tests::rig::{Rig, info, reaches, send, soon, until};
use tokio::sync::Notify;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

const AT_MOST_ONCE: WorkerOptions = WorkerOptions {
    delivery: Delivery::AtMostOnce,
    ..WorkerOptions::DEFAULT
};

/// Holds the first call of one edge until it is opened.
struct Gate {
    reached: UnboundedReceiver<()>,
    open: Sender<()>,
}

impl Gate {
    /// Puts a gate before `edge` of the rig's store, and leaves the other edges as they are.
    fn before(rig: &mut Rig, edge: &'static str) -> Self {
        let (tell, reached) = unbounded_channel();
        let (open, opened) = channel::<()>();
        let opened = std::sync::Mutex::new(opened);
        let first = AtomicBool::new(true);
        let plan = move |called: &'static str| {
            if called == edge && first.swap(false, Ordering::Relaxed) {
                let _ = tell.send(());
                // The thread of one handler waits; the test has another one.
                let _ = opened.lock().unwrap().recv();
            }
            Fault::None
        };
        rig.store = Arc::new(FaultyStore::new(rig.store.clone(), plan));
        Self { reached, open }
    }

    async fn is_reached(&mut self) {
        soon("a call at the gate", self.reached.recv())
            .await
            .unwrap();
    }

    fn open(&self) {
        self.open.send(()).unwrap();
    }
}

/// Begins a shutdown without grace, lets `then` happen, and waits for its end.
async fn shut_down_while(plugin: &DelayQueuePlugin, rig: &Rig, then: impl FnOnce()) {
    let mut shutdown = pin!(plugin.shutdown(Duration::ZERO));
    // Once polled, it has told the handlers.
    assert!(is_pending(shutdown.as_mut()).await);
    then();
    let ended = soon("the end of the shutdown", async {
        let mut tick = tokio::time::interval(Duration::from_millis(1));
        loop {
            tokio::select! {
                () = &mut shutdown => return,
                _ = tick.tick() => rig.clock.advance(millis(100)),
            }
        }
    });
    ended.await;
}

async fn is_pending(future: impl Future<Output = ()>) -> bool {
    tokio::time::timeout(Duration::ZERO, future).await.is_err()
}

/// Found in review: a claim that was under way at a shutdown had its tasks settled as done, and
/// then nobody was left to run them.
#[tokio::test]
async fn an_at_most_once_task_claimed_during_a_shutdown_is_given_back() {
    let mut rig = Rig::default();
    let tasks = TaskSubmitService::new(Arc::clone(&rig.store));
    send(&tasks, "a", Duration::ZERO).await;
    let mut gate = Gate::before(&mut rig, "claim");
    let plugin = rig.start(AT_MOST_ONCE, |_| async { Ok(()) }).await;
    gate.is_reached().await;
    shut_down_while(&plugin, &rig, || gate.open()).await;
    assert!(!rig.has_started());
    assert_eq!(info(&tasks, "a").await.state, TaskState::Scheduled);
}

/// Found in review: a task given back unstarted was no first attempt any more, and ran however
/// late.
#[tokio::test]
async fn a_task_given_back_unstarted_is_still_judged_by_the_late_policy() {
    let mut rig = Rig::default();
    let tasks = TaskSubmitService::new(Arc::clone(&rig.store));
    send(&tasks, "a", Duration::ZERO).await;
    let late = LatePolicy {
        after: minutes(30),
        action: OnLate::Drop,
    };
    let options = WorkerOptions {
        late,
        ..WorkerOptions::DEFAULT
    };
    let mut gate = Gate::before(&mut rig, "claim");
    let plugin = rig.start(options, |_| async { Ok(()) }).await;
    gate.is_reached().await;
    shut_down_while(&plugin, &rig, || gate.open()).await;
    assert_eq!(info(&tasks, "a").await.history.releases, 1);
    rig.clock.advance(hours(3));
    let _next = rig.start(options, |_| async { Ok(()) }).await;
    reaches(&tasks, "a", TaskState::Expired).await;
    assert!(!rig.has_started());
}

/// Found in review: a worker that had returned in time was taken for one over its time limit, and
/// ran again, when its handler looked late.
#[tokio::test]
async fn a_worker_that_returned_in_time_is_done_even_if_its_handler_looks_late() {
    let mut rig = Rig::default();
    let options = WorkerOptions {
        timeout: seconds(30),
        ..WorkerOptions::DEFAULT
    };
    let mut gate = Gate::before(&mut rig, "extend");
    let (go, finish) = (Arc::new(Notify::new()), Arc::new(()));
    let (gone, running) = (Arc::clone(&go), Arc::downgrade(&finish));
    let worker = move |_| {
        let (go, running) = (Arc::clone(&gone), finish.clone());
        async move {
            go.notified().await;
            drop(running);
            Ok(())
        }
    };
    let plugin = rig.start(options, worker).await;
    let tasks = plugin.submit_service();
    send(&tasks, "a", Duration::ZERO).await;
    rig.next().await;
    rig.clock.advance(seconds(10));
    gate.is_reached().await;
    go.notify_one();
    until("the worker's return", || async {
        (running.strong_count() == 1).then_some(())
    })
    .await;
    // Its task ends with the poll in which it returned.
    tokio::task::yield_now().await;
    rig.clock.advance(seconds(20));
    gate.open();
    let end = until("the end", || async {
        let found = info(&tasks, "a").await;
        (found.state != TaskState::Running).then_some(found)
    });
    assert_eq!(end.await.state, TaskState::Done);
}

/// Found in review: a store whose every answer took most of the lock kept all tasks from starting.
#[tokio::test]
async fn a_store_that_is_always_slow_starts_its_tasks_all_the_same() {
    let mut rig = Rig::default();
    let options = WorkerOptions {
        lock: seconds(3),
        ..WorkerOptions::DEFAULT
    };
    let clock = rig.clock.clone();
    let is_slow = AtomicBool::new(true);
    // Those claims that find the task: the first, and the one after each give-back.
    let plan = move |edge| {
        if edge == "settle" {
            is_slow.store(true, Ordering::Relaxed);
        } else if edge == "claim" && is_slow.swap(false, Ordering::Relaxed) {
            clock.advance(millis(2_500));
        }
        Fault::None
    };
    rig.store = Arc::new(FaultyStore::new(rig.store.clone(), plan));
    let tasks = TaskSubmitService::new(Arc::clone(&rig.store));
    send(&tasks, "a", Duration::ZERO).await;
    let _plugin = rig.start(options, |_| std::future::pending()).await;
    assert_eq!(rig.next().await.message, "a");
    assert_eq!(info(&tasks, "a").await.history.releases, 1);
}

/// Found in review: a lock that expired unheard of counted as the only attempt of a task that is
/// settled before it starts, and so had never started.
#[tokio::test]
async fn an_at_most_once_task_whose_claim_was_never_answered_starts_later() {
    let mut rig = Rig::default();
    let first = AtomicBool::new(true);
    let plan = move |edge| match edge {
        "claim" if first.swap(false, Ordering::Relaxed) => Fault::AnswerLost,
        _ => Fault::None,
    };
    let tasks = TaskSubmitService::new(Arc::clone(&rig.store));
    send(&tasks, "a", Duration::ZERO).await;
    rig.store = Arc::new(FaultyStore::new(rig.store.clone(), plan));
    let options = WorkerOptions {
        retry: RetryPolicy::NEVER,
        ..AT_MOST_ONCE
    };
    let _plugin = rig.start(options, |_| async { Ok(()) }).await;
    until("the start", || async {
        rig.clock.advance(millis(500));
        rig.has_started().then_some(())
    })
    .await;
    assert_eq!(rig.next().await.cx.attempt(), 2);
    reaches(&tasks, "a", TaskState::Done).await;
}

/// Found in review: an error that only a mended store ends (a fail-over, a full disk) ended the
/// settling of tasks that had been settled already, with most of the lock left.
#[tokio::test]
async fn an_at_most_once_task_is_settled_again_through_any_error() {
    let mut rig = Rig::default();
    let calls = AtomicU32::new(0);
    let plan = move |edge| match edge {
        "settle" => match calls.fetch_add(1, Ordering::Relaxed) {
            0 => Fault::AnswerLost,
            1 => Fault::ReadOnly,
            _ => Fault::None,
        },
        _ => Fault::None,
    };
    rig.store = Arc::new(FaultyStore::new(rig.store.clone(), plan));
    let plugin = rig.start(AT_MOST_ONCE, |_| async { Ok(()) }).await;
    send(&plugin.submit_service(), "a", Duration::ZERO).await;
    until("the start", || async {
        rig.clock.advance(millis(100));
        rig.has_started().then_some(())
    })
    .await;
    assert_eq!(rig.next().await.message, "a");
}
