//! The life of a task in the plugin, under virtual time on the memory store.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::time::Duration;

use delayq_core::Bucket;
use delayq_core::memory::MemoryStore;
use delayq_core::store::{
    CancelOutcome, ChangeOutcome, ClaimRequest, Durability, ExtendOutcome, StoreOptions,
    SubmitOutcome, Wakeup,
};
use delayq_plugin::{
    Clock, ClockSkew, DeadFilter, DelayQueueJob, DelayQueuePlugin, Delivery, Error, HandlerHealth,
    LatePolicy, OnLate, RetryPolicy, StartError, TaskError, TaskState, TaskSubmitService, TaskType,
    TaskWorker, When, WorkerOptions, hours, millis, minutes, seconds,
};
use delayq_testing::VirtualClock;
use delayq_testing::{Fault, FaultyStore};
use delayq_tests::rig::{Rig, info, reaches, send, soon, until};
use tokio::sync::{Notify, broadcast};

const EXACT: RetryPolicy = RetryPolicy {
    jitter_percent: 0,
    ..RetryPolicy::DEFAULT
};

fn retrying(max_attempts: u32) -> WorkerOptions {
    WorkerOptions {
        retry: RetryPolicy {
            max_attempts,
            ..EXACT
        },
        ..WorkerOptions::DEFAULT
    }
}

const AT_MOST_ONCE: WorkerOptions = WorkerOptions {
    delivery: Delivery::AtMostOnce,
    ..WorkerOptions::DEFAULT
};

/// While its task runs, the handler claims nothing.
const ONE_BY_ONE: WorkerOptions = WorkerOptions {
    concurrency: 1,
    ..WorkerOptions::DEFAULT
};

#[tokio::test]
async fn tasks_start_in_due_order() {
    let mut rig = Rig::default();
    let tasks = TaskSubmitService::new(Arc::clone(&rig.store));
    for (id, delay) in [("c", 30), ("a", 10), ("b", 20)] {
        send(&tasks, id, minutes(delay)).await;
    }
    rig.clock.advance(minutes(31));
    let plugin = rig.start(ONE_BY_ONE, |_| async { Ok(()) }).await;
    for id in ["a", "b", "c"] {
        assert_eq!(rig.next().await.message, id);
    }
    reaches(&tasks, "c", TaskState::Done).await;
    plugin.shutdown(Duration::ZERO).await;
}

#[tokio::test]
async fn nothing_starts_before_it_is_due_and_everything_when_it_is() {
    let mut rig = Rig::default();
    let plugin = rig
        .start(WorkerOptions::DEFAULT, |_| async { Ok(()) })
        .await;
    send(&plugin.submit_service(), "a", minutes(30)).await;
    rig.pass(&plugin, Duration::from_millis(1_799_999)).await;
    assert!(!rig.has_started());
    rig.clock.advance(millis(1));
    let start = rig.next().await;
    assert_eq!(
        (start.at, start.cx.lateness()),
        (minutes(30), Duration::ZERO)
    );
}

/// A sender whose clock is wrong by an hour, either way: only the store's clock counts.
#[tokio::test]
async fn a_wrong_clock_of_the_sender_moves_no_task() {
    let rig = Rig::default();
    let now = rig.clock.now();
    for (id, wrong) in [
        ("ahead", now.plus(hours(1))),
        ("behind", now.minus(hours(1))),
    ] {
        let clock = Arc::new(VirtualClock::new(wrong));
        let tasks = TaskSubmitService::new(Arc::clone(&rig.store)).with_clock(clock);
        let job = DelayQueueJob::raw("job", id).id(id).after(minutes(30));
        let receipt = tasks.send(job).await.unwrap();
        assert_eq!(receipt.due_at(), Some(now.plus(minutes(30))), "{id}");
        let moved = tasks.reschedule("job", id, When::After(minutes(5))).await;
        let due_at = now.plus(minutes(5));
        assert_eq!(moved, Ok(ChangeOutcome::Changed { due_at }), "{id}");
    }
}

/// Only its sender may repeat a submit, under its id: whatever was repeated under another would run
/// twice.
#[tokio::test]
async fn a_submit_whose_answer_is_lost_says_so_and_can_be_repeated() {
    let mut rig = Rig::default();
    let first = AtomicBool::new(true);
    let plan = move |edge| match edge {
        "submit" if first.swap(false, Ordering::Relaxed) => Fault::AnswerLost,
        _ => Fault::None,
    };
    rig.store = Arc::new(FaultyStore::new(rig.store.clone(), plan));
    let tasks = TaskSubmitService::new(Arc::clone(&rig.store));
    let job = DelayQueueJob::raw("job", "m").after(minutes(30));
    let lost = tasks.send(job.clone()).await;
    assert!(matches!(lost, Err(Error::Indeterminate { .. })), "{lost:?}");
    let receipt = tasks.send(job.clone()).await.unwrap();
    let state = TaskState::Scheduled;
    assert_eq!(receipt.outcome, SubmitOutcome::AlreadyExists { state });
    assert_eq!(receipt.id.as_str(), job.task_id());
    assert_eq!(tasks.stats("job").await.unwrap().scheduled, 1);
}

/// What is settled before it has run is lost with its process.
#[tokio::test]
async fn a_task_is_running_until_its_worker_has_returned() {
    let mut rig = Rig::default();
    let may_return = Arc::new(Notify::new());
    let gate = Arc::clone(&may_return);
    let plugin = rig
        .start(WorkerOptions::DEFAULT, move |_| {
            let gate = Arc::clone(&gate);
            async move {
                gate.notified().await;
                Ok(())
            }
        })
        .await;
    let tasks = plugin.submit_service();
    send(&tasks, "a", Duration::ZERO).await;
    rig.next().await;
    rig.pass(&plugin, seconds(2)).await;
    assert_eq!(info(&tasks, "a").await.state, TaskState::Running);
    assert_eq!(plugin.health().await.handlers[0].settled, 0);
    may_return.notify_one();
    reaches(&tasks, "a", TaskState::Done).await;
    assert_eq!(plugin.health().await.handlers[0].store_losses, 0);
}

#[tokio::test]
async fn a_worker_sees_its_attempt_age_lateness_headers_and_fence() {
    let mut rig = Rig::default();
    let plugin = rig
        .start(WorkerOptions::DEFAULT, |_| async { Ok(()) })
        .await;
    let job = DelayQueueJob::raw("job", "m")
        .id("a")
        .after(seconds(10))
        .header("shop", "berlin");
    plugin.submit_service().send(job).await.unwrap();
    rig.clock.advance(seconds(15));
    let cx = rig.next().await.cx;
    assert_eq!(
        (cx.id().as_str(), cx.task_type().as_str(), cx.attempt()),
        ("a", "job", 1)
    );
    assert_eq!((cx.age(), cx.lateness()), (seconds(15), seconds(5)));
    assert_eq!(
        (cx.header("shop"), cx.header("other")),
        (Some("berlin"), None)
    );
    assert!(cx.fence() > 0);
}

#[tokio::test]
async fn retries_follow_the_backoff_exactly_and_the_last_failure_ends_in_dead() {
    let mut rig = Rig::default();
    let plugin = rig
        .start(retrying(4), |_| async { Err(TaskError::retry("no luck")) })
        .await;
    let tasks = plugin.submit_service();
    send(&tasks, "a", Duration::ZERO).await;
    let mut expected = Duration::ZERO;
    for (attempt, wait) in [(1, 1), (2, 2), (3, 4)] {
        let start = rig.next().await;
        assert_eq!((start.cx.attempt(), start.at), (attempt, expected));
        let retry_at = rig.clock.now().plus(seconds(wait));
        until("the retry is scheduled", || async {
            (info(&tasks, "a").await.history.failures == attempt).then_some(())
        })
        .await;
        assert_eq!(info(&tasks, "a").await.at, retry_at);
        expected += seconds(wait);
        rig.clock.advance(seconds(wait));
    }
    assert_eq!((rig.next().await.at, expected), (expected, seconds(7)));
    let dead = reaches(&tasks, "a", TaskState::Dead).await;
    assert_eq!(
        (dead.attempt, dead.history.last_error.as_deref()),
        (4, Some("no luck"))
    );
    rig.pass(&plugin, hours(1)).await;
    assert!(!rig.has_started(), "a dead task does not start by itself");
}

#[tokio::test]
async fn a_worker_decides_its_own_wait_or_the_end() {
    let mut rig = Rig::default();
    let plugin = rig
        .start(retrying(5), |start| async move {
            match start.cx.attempt() {
                1 => Err(TaskError::retry_after(minutes(7), "busy")),
                _ => Err(TaskError::dead("hopeless")),
            }
        })
        .await;
    let tasks = plugin.submit_service();
    send(&tasks, "a", Duration::ZERO).await;
    rig.next().await;
    until("the retry", || async {
        (info(&tasks, "a").await.history.failures == 1).then_some(())
    })
    .await;
    assert_eq!(info(&tasks, "a").await.at, rig.clock.now().plus(minutes(7)));
    rig.clock.advance(minutes(7));
    assert_eq!(rig.next().await.cx.attempt(), 2);
    let dead = reaches(&tasks, "a", TaskState::Dead).await;
    assert_eq!(dead.history.last_error.as_deref(), Some("hopeless"));
}

#[tokio::test]
async fn a_release_gives_the_task_back_without_burning_an_attempt() {
    let mut rig = Rig::default();
    let released = Arc::new(AtomicBool::new(false));
    let plugin = rig
        .start(retrying(1), move |_| {
            let first = !released.swap(true, Ordering::Relaxed);
            async move {
                if first {
                    Err(TaskError::release(minutes(5)))
                } else {
                    Ok(())
                }
            }
        })
        .await;
    let tasks = plugin.submit_service();
    send(&tasks, "a", Duration::ZERO).await;
    assert_eq!(rig.next().await.cx.attempt(), 1);
    until("the release", || async {
        (info(&tasks, "a").await.history.releases == 1).then_some(())
    })
    .await;
    rig.clock.advance(minutes(5));
    let again = rig.next().await;
    assert_eq!((again.cx.attempt(), again.at), (1, minutes(5)));
    reaches(&tasks, "a", TaskState::Done).await;
}

#[tokio::test]
async fn an_attempt_over_its_time_limit_is_stopped_and_retried() {
    let mut rig = Rig::default();
    let options = WorkerOptions {
        timeout: seconds(30),
        ..retrying(2)
    };
    let plugin = rig.start(options, |_| std::future::pending()).await;
    let tasks = plugin.submit_service();
    send(&tasks, "a", Duration::ZERO).await;
    let first = rig.next().await;
    rig.pass(&plugin, seconds(29)).await;
    assert!(!first.cx.is_cancelled());
    rig.clock.advance(seconds(1));
    soon("the cancellation", first.cx.cancelled()).await;
    until("the retry", || async {
        (info(&tasks, "a").await.history.failures == 1).then_some(())
    })
    .await;
    assert_eq!(
        info(&tasks, "a").await.history.last_error.as_deref(),
        Some("timed out after 30s")
    );
    rig.clock.advance(seconds(1));
    assert_eq!(rig.next().await.cx.attempt(), 2);
    rig.clock.advance(seconds(30));
    reaches(&tasks, "a", TaskState::Dead).await;
}

#[tokio::test]
async fn a_lock_is_extended_for_as_long_as_its_worker_runs() {
    let mut rig = Rig::default();
    let go = Arc::new(Notify::new());
    let gate = Arc::clone(&go);
    let plugin = rig
        .start(WorkerOptions::DEFAULT, move |_| {
            let gate = Arc::clone(&gate);
            async move {
                gate.notified().await;
                Ok(())
            }
        })
        .await;
    let tasks = plugin.submit_service();
    send(&tasks, "a", Duration::ZERO).await;
    let first = rig.next().await;
    for _ in 0..20 {
        let before = info(&tasks, "a").await.at;
        rig.clock.advance(seconds(10));
        until("an extension", || async {
            (info(&tasks, "a").await.at > before).then_some(())
        })
        .await;
    }
    assert!(!first.cx.is_cancelled() && !rig.has_started());
    go.notify_one();
    reaches(&tasks, "a", TaskState::Done).await;
}

#[tokio::test]
async fn an_expired_task_is_not_started() {
    let rig = Rig::default();
    let plugin = rig
        .start(WorkerOptions::DEFAULT, |_| async { Ok(()) })
        .await;
    let tasks = plugin.submit_service();
    tasks.pause("job", None).await.unwrap();
    let job = DelayQueueJob::raw("job", "a")
        .id("a")
        .after(seconds(5))
        .expires_after(seconds(10));
    tasks.send(job).await.unwrap();
    rig.pass(&plugin, seconds(16)).await;
    tasks.resume("job").await.unwrap();
    reaches(&tasks, "a", TaskState::Expired).await;
    assert!(!rig.has_started());
}

#[tokio::test]
async fn late_tasks_are_run_dropped_or_parked_as_their_type_says() {
    for (action, state) in [
        (OnLate::Run, TaskState::Done),
        (OnLate::Drop, TaskState::Expired),
        (OnLate::Dead, TaskState::Dead),
    ] {
        let rig = Rig::default();
        let late = LatePolicy {
            action,
            after: minutes(10),
        };
        let options = WorkerOptions {
            late,
            ..WorkerOptions::DEFAULT
        };
        let plugin = rig.start(options, |_| async { Ok(()) }).await;
        let tasks = plugin.submit_service();
        tasks.pause("job", None).await.unwrap();
        send(&tasks, "late", Duration::ZERO).await;
        rig.pass(&plugin, minutes(10) + seconds(1)).await;
        tasks.resume("job").await.unwrap();
        reaches(&tasks, "late", state).await;
        assert_eq!(rig.has_started(), action == OnLate::Run, "{action:?}");
    }
}

#[tokio::test]
async fn a_shutdown_lets_running_workers_finish_and_claims_nothing_more() {
    let mut rig = Rig::default();
    let go = Arc::new(Notify::new());
    let gate = Arc::clone(&go);
    let plugin = rig
        .start(WorkerOptions::DEFAULT, move |_| {
            let gate = Arc::clone(&gate);
            async move {
                gate.notified().await;
                Ok(())
            }
        })
        .await;
    let tasks = plugin.submit_service();
    send(&tasks, "a", Duration::ZERO).await;
    let running = rig.next().await;
    let finished = async {
        go.notify_one();
        reaches(&tasks, "a", TaskState::Done).await
    };
    soon("the shutdown", async {
        tokio::join!(plugin.shutdown(minutes(1)), finished)
    })
    .await;
    assert!(!running.cx.is_cancelled());
    send(&tasks, "b", Duration::ZERO).await;
    assert_eq!(info(&tasks, "b").await.state, TaskState::Scheduled);
}

#[tokio::test]
async fn a_shutdown_gives_back_what_does_not_finish_without_burning_an_attempt() {
    let mut rig = Rig::default();
    let plugin = rig.start(retrying(1), |_| std::future::pending()).await;
    let tasks = plugin.submit_service();
    send(&tasks, "a", Duration::ZERO).await;
    let first = rig.next().await;
    let time = async {
        rig.clock.advance(seconds(9));
        assert!(!first.cx.is_cancelled(), "the grace time is the worker's");
        rig.clock.advance(seconds(1));
        soon("the notice", first.cx.cancelled()).await;
        rig.clock.advance(seconds(1));
    };
    soon("the shutdown", async {
        tokio::join!(plugin.shutdown(seconds(10)), time)
    })
    .await;
    let back = info(&tasks, "a").await;
    assert_eq!(
        (back.state, back.attempt, back.history.releases),
        (TaskState::Scheduled, 0, 1)
    );

    let _next = rig.start(retrying(1), |_| async { Ok(()) }).await;
    let again = rig.next().await;
    assert_eq!(again.cx.attempt(), 1);
    assert!(again.cx.fence() > first.cx.fence());
    reaches(&tasks, "a", TaskState::Done).await;
}

#[tokio::test]
async fn after_a_restart_types_from_the_list_get_their_handlers_and_overdue_tasks_run() {
    let mut rig = Rig::default();
    let tasks = TaskSubmitService::new(Arc::clone(&rig.store));
    for task_type in ["report.daily", "report.weekly", "other"] {
        tasks
            .send(DelayQueueJob::raw(task_type, task_type).after(minutes(1)))
            .await
            .unwrap();
    }
    rig.clock.advance(hours(5));
    let worker = rig.worker(|_| async { Ok(()) });
    let builder = rig
        .builder()
        .worker("report.*", WorkerOptions::DEFAULT, worker);
    let plugin = builder.start().await.unwrap();
    let mut started = [rig.next().await.message, rig.next().await.message];
    started.sort();
    assert_eq!(started, ["report.daily", "report.weekly"]);

    let health = plugin.health().await;
    let unserved = health.unserved.first().unwrap();
    assert_eq!(unserved.task_type.as_str(), "other");
    assert_eq!(
        unserved.stats.as_ref().unwrap().due,
        1,
        "left alone, counted and shown"
    );
    assert_eq!(plugin.served_types().len(), 2);
}

/// Or its tasks would not be served after a restart of another instance, of which only a pattern
/// serves it.
#[tokio::test]
async fn a_served_type_is_listed_before_its_first_task() {
    let rig = Rig::default();
    let plugin = rig
        .start(WorkerOptions::DEFAULT, |_| async { Ok(()) })
        .await;
    let types = plugin.submit_service().types().await.unwrap();
    assert_eq!(types, [TaskType::new("job").unwrap()]);
}

/// A plugin that is dropped without a shutdown must not go on in the background.
#[tokio::test]
async fn the_handlers_of_a_dropped_plugin_end_and_let_go_of_the_store() {
    let rig = Rig::default();
    let plugin = rig
        .start(WorkerOptions::DEFAULT, |_| async { Ok(()) })
        .await;
    drop(plugin);
    until("the store is the rig's alone", || async {
        (Arc::strong_count(&rig.store) == 1).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_pattern_worker_serves_types_that_are_made_at_run_time() {
    let mut rig = Rig::default();
    let worker = rig.worker(|_| async { Ok(()) });
    let builder = rig
        .builder()
        .worker("report.*", WorkerOptions::DEFAULT, worker);
    let plugin = builder.start().await.unwrap();
    let tasks = plugin.submit_service();
    tasks
        .send(DelayQueueJob::raw("report.new", "x"))
        .await
        .unwrap();
    assert_eq!(rig.next().await.cx.task_type().as_str(), "report.new");
}

#[tokio::test]
async fn a_type_of_another_instance_is_found_in_the_list_when_its_wake_up_is_lost() {
    let mut rig = Rig::default();
    rig.store = Arc::new(FaultyStore::new(rig.store.clone(), |_| Fault::None).without_wakeups());
    let worker = rig.worker(|_| async { Ok(()) });
    let builder = rig
        .builder()
        .worker("report.*", WorkerOptions::DEFAULT, worker);
    let plugin = builder.start().await.unwrap();
    plugin
        .submit_service()
        .send(DelayQueueJob::raw("report.new", "x"))
        .await
        .unwrap();
    until("a look into the list", || async {
        rig.clock.advance(seconds(5));
        rig.has_started().then_some(())
    })
    .await;
    assert_eq!(rig.next().await.message, "x");
}

#[tokio::test]
async fn a_lost_wake_up_costs_at_most_one_poll_interval() {
    let mut rig = Rig::default();
    rig.store = Arc::new(FaultyStore::new(rig.store.clone(), |_| Fault::None).without_wakeups());
    let plugin = rig
        .start(WorkerOptions::DEFAULT, |_| async { Ok(()) })
        .await;
    rig.pass(&plugin, seconds(1)).await;
    send(&plugin.submit_service(), "a", Duration::ZERO).await;
    rig.clock.advance(seconds(1));
    assert_eq!(rig.next().await.cx.lateness(), seconds(1));
}

#[tokio::test]
async fn a_flood_of_wake_ups_costs_a_claim_every_ten_milliseconds() {
    let mut rig = Rig::default();
    let (wakeups, claims) = (broadcast::Sender::new(16), Arc::new(AtomicUsize::new(0)));
    let counted = Arc::clone(&claims);
    let count = move |operation: &str| {
        if operation == "claim" {
            counted.fetch_add(1, Ordering::SeqCst);
        }
        Fault::None
    };
    let faulty = FaultyStore::new(rig.store.clone(), count).with_wakeups(wakeups.clone());
    rig.store = Arc::new(faulty);
    let _plugin = rig
        .start(WorkerOptions::DEFAULT, |_| async { Ok(()) })
        .await;
    let flood = |until_claims: usize| {
        let (wakeups, claims) = (wakeups.clone(), Arc::clone(&claims));
        until("claims of a flood", move || {
            wakeups.send(Wakeup::All).unwrap();
            let is_reached = claims.load(Ordering::SeqCst) >= until_claims;
            async move { is_reached.then_some(()) }
        })
    };
    // The first claim, and those that are free.
    flood(17).await;
    for n in 1..=20 {
        rig.clock.advance(millis(10));
        flood(17 + n).await;
    }
    assert!(claims.load(Ordering::SeqCst) <= 17 + 20 + 1);
}

#[tokio::test]
async fn a_sooner_task_wakes_a_handler_that_sleeps_for_a_later_one() {
    let mut rig = Rig::default();
    let worker = rig.worker(|_| async { Ok(()) });
    let builder = rig.builder().poll_interval(hours(1));
    let plugin = builder
        .worker("job", WorkerOptions::DEFAULT, worker)
        .start()
        .await
        .unwrap();
    let tasks = plugin.submit_service();
    send(&tasks, "later", minutes(30)).await;
    send(&tasks, "sooner", minutes(2)).await;
    // The wake-up has been heard once the handler plans with the sooner task.
    until("the start of the sooner task", || async {
        rig.clock.advance(seconds(1));
        rig.has_started().then_some(())
    })
    .await;
    let start = rig.next().await;
    assert_eq!(
        (start.message.as_str(), start.cx.lateness() < minutes(28)),
        ("sooner", true)
    );
}

#[tokio::test]
async fn poison_goes_to_dead_and_is_named() {
    let rig = Rig::default();
    let tasks = TaskSubmitService::new(Arc::clone(&rig.store));
    send(&tasks, "a", Duration::ZERO).await;
    let bucket = Bucket::whole(TaskType::new("job").unwrap());
    // Three holders that die with the task in their hands, the last one with nothing else.
    for _ in 0..3 {
        let request = ClaimRequest::new(1, seconds(30), rig.clock.now());
        let claimed = rig.store.claim(&bucket, &request).await.unwrap();
        let lock = &claimed.tasks[0].lock;
        let extended = rig.store.extend_alone(&bucket, lock, seconds(30));
        assert!(matches!(extended.await, Ok(ExtendOutcome::Extended(_))));
        rig.clock.advance(seconds(30));
    }
    let _plugin = rig
        .start(WorkerOptions::DEFAULT, |_| async { Ok(()) })
        .await;
    let dead = reaches(&tasks, "a", TaskState::Dead).await;
    assert!(dead.history.last_error.unwrap().starts_with("poison"));
    assert!(!rig.has_started());
}

#[tokio::test]
async fn an_expired_lock_of_the_last_attempt_leaves_no_attempt() {
    let rig = Rig::default();
    let tasks = TaskSubmitService::new(Arc::clone(&rig.store));
    send(&tasks, "a", Duration::ZERO).await;
    let bucket = Bucket::whole(TaskType::new("job").unwrap());
    let (lock_for, caller_now) = (seconds(30), rig.clock.now());
    let request = ClaimRequest::new(1, lock_for, caller_now);
    rig.store.claim(&bucket, &request).await.unwrap();
    rig.clock.advance(seconds(30));
    // The other worker would allow more attempts, but this one was to be run once.
    let mail = Mail(Arc::default());
    let builder = rig.builder().worker("job", retrying(9), mail);
    let once = rig.worker(|_| async { Ok(()) });
    let plugin = builder.worker("job", retrying(1), once).start().await;
    let dead = reaches(&tasks, "a", TaskState::Dead).await;
    drop(plugin);
    assert_eq!(
        dead.history.last_error.as_deref(),
        Some("no attempt is left: the lock of attempt 1 of 1 expired")
    );
    assert!(!rig.has_started());
}

#[tokio::test]
async fn health_tells_when_nothing_runs_any_more() {
    let mut rig = Rig::default();
    let plugin = rig
        .start(WorkerOptions::DEFAULT, |_| async { Ok(()) })
        .await;
    let tasks = plugin.submit_service();
    send(&tasks, "a", Duration::ZERO).await;
    reaches(&tasks, "a", TaskState::Done).await;
    assert!(plugin.health().await.is_ok());
    plugin.shutdown(Duration::ZERO).await;
    let health = plugin.health().await;
    assert_eq!(
        (health.is_ok(), health.handlers[0].stopped),
        (false, Some("shut down"))
    );
    rig.next().await;

    let other = std::thread::scope(|scope| {
        let start = || {
            let runtime = tokio::runtime::Runtime::new().unwrap();
            runtime.block_on(rig.start(WorkerOptions::DEFAULT, |_| async { Ok(()) }))
        };
        scope.spawn(start).join().unwrap()
    });
    send(&tasks, "b", Duration::ZERO).await;
    let why = until("the news of the runtime's end", || async {
        other.health().await.handlers[0].stopped
    });
    assert!(why.await.contains("runtime"));
}

#[tokio::test]
async fn a_panic_is_a_failed_attempt_and_harms_nobody_else() {
    let mut rig = Rig::default();
    let plugin = rig
        .start(retrying(1), |start| async move {
            assert!(start.message != "bad", "broken on purpose");
            Ok(())
        })
        .await;
    let tasks = plugin.submit_service();
    send(&tasks, "bad", Duration::ZERO).await;
    send(&tasks, "good", Duration::ZERO).await;
    let dead = reaches(&tasks, "bad", TaskState::Dead).await;
    assert_eq!(
        dead.history.last_error.as_deref(),
        Some("panicked: broken on purpose")
    );
    reaches(&tasks, "good", TaskState::Done).await;
    rig.next().await;
}

#[tokio::test]
async fn a_stuck_blocking_worker_is_timed_out_and_keeps_only_its_own_place() {
    let mut rig = Rig::default();
    let options = WorkerOptions {
        blocking: true,
        concurrency: 2,
        timeout: seconds(5),
        ..retrying(1)
    };
    let (release, stuck) = std::sync::mpsc::channel::<()>();
    let stuck = Arc::new(std::sync::Mutex::new(stuck));
    let plugin = rig
        .start(options, move |start| {
            let stuck = Arc::clone(&stuck);
            async move {
                if start.message == "stuck" {
                    // Blocks its thread until the test ends.
                    let _ = stuck.lock().unwrap().recv();
                }
                Ok(())
            }
        })
        .await;
    let tasks = plugin.submit_service();
    send(&tasks, "stuck", Duration::ZERO).await;
    rig.next().await;
    rig.pass(&plugin, seconds(5)).await;
    // It is waited for a little.
    rig.clock.advance(seconds(1));
    let dead = reaches(&tasks, "stuck", TaskState::Dead).await;
    assert_eq!(
        dead.history.last_error.as_deref(),
        Some("timed out after 5s")
    );
    for id in ["b", "c"] {
        send(&tasks, id, Duration::ZERO).await;
        reaches(&tasks, id, TaskState::Done).await;
    }
    assert_eq!(
        plugin.health().await.handlers[0].running,
        1,
        "the stuck thread keeps its place"
    );
    drop(release);
}

/// Says that it is being dropped, and is not before it may.
struct Goodbye(std::sync::mpsc::Sender<()>, std::sync::mpsc::Receiver<()>);

impl Drop for Goodbye {
    fn drop(&mut self) {
        let _ = self.0.send(());
        let _ = self.1.recv();
    }
}

/// Found by a soak on a machine without a processor to spare: the next attempt had begun beside a
/// worker that was stopped and not yet gone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_attempt_waits_until_the_worker_of_the_last_one_is_gone_whose_time_was_up() {
    let mut rig = Rig::default();
    let options = WorkerOptions {
        timeout: seconds(5),
        retry: RetryPolicy {
            base: Duration::ZERO,
            ..EXACT
        },
        ..WorkerOptions::DEFAULT
    };
    let (going, is_going) = std::sync::mpsc::channel();
    let (may_go, waits) = std::sync::mpsc::channel();
    let first = Arc::new(std::sync::Mutex::new(Some(Goodbye(going, waits))));
    let plugin = rig
        .start(options, move |_| {
            let first = Arc::clone(&first);
            async move {
                let goodbye = first.lock().unwrap().take();
                if goodbye.is_some() {
                    std::future::pending::<()>().await;
                }
                Ok(())
            }
        })
        .await;
    let tasks = plugin.submit_service();
    send(&tasks, "a", Duration::ZERO).await;
    assert_eq!(rig.next().await.cx.attempt(), 1);
    rig.clock.advance(seconds(5));
    tokio::task::spawn_blocking(move || is_going.recv().unwrap())
        .await
        .unwrap();
    for _ in 0..100 {
        assert_eq!(info(&tasks, "a").await.state, TaskState::Running);
        plugin.health().await;
    }
    assert!(!rig.has_started());
    may_go.send(()).unwrap();
    assert_eq!(rig.next().await.cx.attempt(), 2);
    reaches(&tasks, "a", TaskState::Done).await;
}

/// Counts its runs.
struct Mail(Arc<AtomicU32>);

#[async_trait::async_trait]
impl TaskWorker for Mail {
    async fn invoke(&self, _: &str, _: &delayq_plugin::TaskContext) -> delayq_plugin::TaskResult {
        self.0.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
}

/// Found in review: the results of an attempt that timed out died with it.
#[tokio::test]
async fn a_worker_that_succeeded_beside_one_that_timed_out_does_not_run_again() {
    let mut rig = Rig::default();
    let mails = Arc::new(AtomicU32::new(0));
    let options = WorkerOptions {
        timeout: seconds(30),
        ..retrying(2)
    };
    let stuck = rig.worker(|_| std::future::pending());
    let builder = rig.builder().worker("job", options, stuck);
    let plugin = builder
        .worker("job", options, Mail(Arc::clone(&mails)))
        .start()
        .await
        .unwrap();
    let tasks = plugin.submit_service();
    send(&tasks, "a", Duration::ZERO).await;
    rig.next().await;
    until("the mail", || async {
        (mails.load(Ordering::Relaxed) == 1).then_some(())
    })
    .await;
    // In steps, so that the lock is extended meanwhile.
    for _ in 0..6 {
        rig.pass(&plugin, seconds(5)).await;
    }
    until("the retry", || async {
        (info(&tasks, "a").await.history.failures == 1).then_some(())
    })
    .await;
    assert!(info(&tasks, "a").await.history.succeeded[0].ends_with("Mail"));
    rig.clock.advance(seconds(1));
    assert_eq!(rig.next().await.cx.attempt(), 2);
    for _ in 0..6 {
        rig.pass(&plugin, seconds(5)).await;
    }
    reaches(&tasks, "a", TaskState::Dead).await;
    let all = DeadFilter::all();
    tasks
        .requeue_dead("job", &all, Duration::ZERO)
        .await
        .unwrap();
    assert_eq!(rig.next().await.cx.attempt(), 1);
    assert_eq!(mails.load(Ordering::Relaxed), 1);
}

/// Found in review: the place of a stuck blocking worker was given away when another worker of the
/// type ran beside it.
#[tokio::test]
async fn a_stuck_blocking_worker_keeps_its_place_beside_another_worker() {
    let mut rig = Rig::default();
    let options = WorkerOptions {
        blocking: true,
        timeout: seconds(5),
        ..retrying(1)
    };
    let (release, stuck) = std::sync::mpsc::channel::<()>();
    let stuck = Arc::new(std::sync::Mutex::new(stuck));
    let blocking = rig.worker(move |_| {
        let stuck = Arc::clone(&stuck);
        async move {
            let _ = stuck.lock().unwrap().recv();
            Ok(())
        }
    });
    let mail = Mail(Arc::default());
    let builder = rig.builder().worker("job", options, blocking);
    let plugin = builder
        .worker("job", retrying(1), mail)
        .start()
        .await
        .unwrap();
    let tasks = plugin.submit_service();
    send(&tasks, "a", Duration::ZERO).await;
    rig.next().await;
    rig.clock.advance(minutes(30));
    reaches(&tasks, "a", TaskState::Dead).await;
    assert_eq!(plugin.health().await.handlers[0].running, 1);
    drop(release);
    until("the end of the thread", || async {
        (plugin.health().await.handlers[0].running == 0).then_some(())
    })
    .await;
}

#[tokio::test]
async fn every_worker_of_a_type_runs_and_a_retry_runs_only_those_that_failed() {
    let mut rig = Rig::default();
    let mails = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&mails);
    let ship = rig.worker(|start| async move {
        if start.cx.attempt() == 1 {
            Err(TaskError::retry("no van"))
        } else {
            Ok(())
        }
    });
    let plugin = rig
        .builder()
        .worker("job", retrying(3), ship)
        .worker("job", retrying(3), Mail(counted))
        .start()
        .await
        .unwrap();
    let tasks = plugin.submit_service();
    send(&tasks, "a", Duration::ZERO).await;
    rig.next().await;
    until("the retry", || async {
        (info(&tasks, "a").await.history.failures == 1).then_some(())
    })
    .await;
    let history = info(&tasks, "a").await.history;
    assert!(history.succeeded[0].ends_with("Mail"), "{history:?}");
    assert!(history.last_error.unwrap().ends_with("Scripted: no van"));
    rig.clock.advance(seconds(1));
    assert_eq!(rig.next().await.cx.attempt(), 2);
    reaches(&tasks, "a", TaskState::Done).await;
    assert_eq!(mails.load(Ordering::Relaxed), 1);
}

/// Found in review: nobody ended such an attempt, and its slot never came back.
#[tokio::test]
async fn a_task_is_done_when_the_only_worker_that_failed_is_not_there_any_more() {
    let mut rig = Rig::default();
    let mails = Arc::new(AtomicU32::new(0));
    let options = WorkerOptions {
        concurrency: 1,
        ..retrying(3)
    };
    let ship = rig.worker(|_| async { Err(TaskError::retry("no van")) });
    let plugin = rig
        .builder()
        .worker("job", options, ship)
        .worker("job", options, Mail(Arc::clone(&mails)))
        .start()
        .await
        .unwrap();
    let tasks = plugin.submit_service();
    send(&tasks, "a", Duration::ZERO).await;
    rig.next().await;
    until("the retry", || async {
        (info(&tasks, "a").await.history.failures == 1).then_some(())
    })
    .await;
    plugin.shutdown(Duration::ZERO).await;
    let mail = Mail(Arc::clone(&mails));
    let builder = rig.builder().worker("job", options, mail);
    let plugin = builder.start().await.unwrap();
    let tasks = plugin.submit_service();
    rig.clock.advance(seconds(1));
    reaches(&tasks, "a", TaskState::Done).await;
    assert_eq!(mails.load(Ordering::Relaxed), 1, "it has succeeded before");
    // The one slot is free.
    send(&tasks, "b", Duration::ZERO).await;
    reaches(&tasks, "b", TaskState::Done).await;
    assert_eq!(mails.load(Ordering::Relaxed), 2);
    plugin.shutdown(Duration::ZERO).await;
}

#[tokio::test]
async fn cancelling_a_running_task_tells_its_worker_and_no_attempt_follows() {
    let mut rig = Rig::default();
    let plugin = rig
        .start(retrying(5), |start| async move {
            start.cx.cancelled().await;
            Err(TaskError::retry("stopped"))
        })
        .await;
    let tasks = plugin.submit_service();
    send(&tasks, "a", Duration::ZERO).await;
    rig.next().await;
    assert_eq!(
        tasks.cancel("job", "a").await.unwrap(),
        CancelOutcome::Running
    );
    rig.clock.advance(seconds(10));
    reaches(&tasks, "a", TaskState::Cancelled).await;
    rig.pass(&plugin, hours(1)).await;
    assert!(!rig.has_started());
}

#[tokio::test]
async fn at_most_once_settles_before_the_start_and_never_retries() {
    let mut rig = Rig::default();
    let options = WorkerOptions {
        delivery: Delivery::AtMostOnce,
        ..retrying(5)
    };
    let store = Arc::clone(&rig.store);
    let plugin = rig
        .start(options, move |start| {
            let store = Arc::clone(&store);
            async move {
                let found = store.find(start.cx.task_type(), start.cx.id()).await?;
                assert_eq!(found.unwrap().state, TaskState::Done);
                Err(TaskError::retry("lost for good"))
            }
        })
        .await;
    let tasks = plugin.submit_service();
    send(&tasks, "a", Duration::ZERO).await;
    rig.next().await;
    rig.pass(&plugin, minutes(5)).await;
    assert!(!rig.has_started());
    let info = info(&tasks, "a").await;
    assert_eq!(info.state, TaskState::Done);
    assert_eq!(info.history.last_error.as_deref(), Some("lost for good"));
}

#[tokio::test]
async fn an_at_most_once_task_is_settled_again_when_the_answer_is_lost_and_starts_once() {
    let mut rig = Rig::default();
    let first = AtomicBool::new(true);
    let plan = move |edge| match edge {
        "settle" if first.swap(false, Ordering::Relaxed) => Fault::AnswerLost,
        _ => Fault::None,
    };
    rig.store = Arc::new(FaultyStore::new(rig.store.clone(), plan));
    let plugin = rig.start(AT_MOST_ONCE, |_| async { Ok(()) }).await;
    let tasks = plugin.submit_service();
    send(&tasks, "a", Duration::ZERO).await;
    until("the start", || async {
        rig.clock.advance(millis(100));
        rig.has_started().then_some(())
    })
    .await;
    assert_eq!(rig.next().await.message, "a");
    rig.pass(&plugin, hours(1)).await;
    assert!(!rig.has_started());
}

#[tokio::test]
async fn an_at_most_once_task_whose_settlement_stays_unsure_never_starts() {
    let mut rig = Rig::default();
    let settles = Arc::new(AtomicU32::new(0));
    let claims_after = Arc::new(AtomicU32::new(0));
    let counts = (Arc::clone(&settles), Arc::clone(&claims_after));
    let plan = move |edge| match edge {
        "settle" => {
            counts.0.fetch_add(1, Ordering::Relaxed);
            Fault::AnswerLost
        }
        "claim" if counts.0.load(Ordering::Relaxed) > 0 => {
            counts.1.fetch_add(1, Ordering::Relaxed);
            Fault::None
        }
        _ => Fault::None,
    };
    rig.store = Arc::new(FaultyStore::new(rig.store.clone(), plan));
    let plugin = rig.start(AT_MOST_ONCE, |_| async { Ok(()) }).await;
    let tasks = plugin.submit_service();
    send(&tasks, "a", Duration::ZERO).await;
    until("the next claim", || async {
        rig.clock.advance(millis(100));
        (claims_after.load(Ordering::Relaxed) > 0).then_some(())
    })
    .await;
    assert!(settles.load(Ordering::Relaxed) > 1);
    assert_eq!(info(&tasks, "a").await.state, TaskState::Done);
    assert!(!rig.has_started());
}

#[tokio::test]
async fn an_outage_of_the_store_stalls_no_type_and_health_tells() {
    let mut rig = Rig::default();
    let down = Arc::new(AtomicBool::new(false));
    let is_down = Arc::clone(&down);
    let plan = move |_| {
        if is_down.load(Ordering::Relaxed) {
            Fault::NotApplied
        } else {
            Fault::None
        }
    };
    rig.store = Arc::new(FaultyStore::new(rig.store.clone(), plan));
    let plugin = rig
        .start(WorkerOptions::DEFAULT, |_| async { Ok(()) })
        .await;
    let tasks = plugin.submit_service();
    send(&tasks, "a", minutes(1)).await;
    down.store(true, Ordering::Relaxed);
    for _ in 0..100 {
        rig.clock.advance(seconds(2));
        until("another failed call", || async {
            (plugin.health().await.handlers[0].failures_in_a_row > 0).then_some(())
        })
        .await;
    }
    let health = plugin.health().await;
    assert!(!health.is_ok() && health.store_error.is_some());
    assert!(
        health.handlers[0]
            .last_error
            .as_ref()
            .unwrap()
            .is_transient()
    );
    down.store(false, Ordering::Relaxed);
    // In steps, as the last failed call may be answered, and its wait begin, after the first of
    // them.
    until("the start after the outage", || async {
        rig.clock.advance(millis(100));
        rig.has_started().then_some(())
    })
    .await;
    assert_eq!(rig.next().await.message, "a");
    reaches(&tasks, "a", TaskState::Done).await;
    assert!(plugin.health().await.is_ok());
}

/// Found by a user: it took twice the time of a call, and as much again for each type that nobody
/// served.
#[tokio::test]
async fn health_of_a_silent_store_waits_for_one_call() {
    let mut rig = Rig::default();
    let others = ["x", "y", "z"].map(|name| TaskType::new(name).unwrap());
    for other in &others {
        rig.store.register_type(other).await.unwrap();
    }
    let is_watched = Arc::new(AtomicBool::new(false));
    let [asked, counted] = [(); 2].map(|()| Arc::new(AtomicU32::new(0)));
    let (watched, first, stats) = (is_watched.clone(), asked.clone(), counted.clone());
    let plan = move |edge: &'static str| match edge {
        "check" | "types" if watched.load(Ordering::Relaxed) => {
            first.fetch_add(1, Ordering::Relaxed);
            Fault::Late
        }
        "stats" => {
            stats.fetch_add(1, Ordering::Relaxed);
            Fault::NotApplied
        }
        _ => Fault::None,
    };
    let faulty = FaultyStore::new(rig.store.clone(), plan);
    let clock = Arc::new(rig.clock.clone());
    rig.store = Arc::new(faulty.with_delay(clock, seconds(5)));
    let plugin = rig.start(WorkerOptions::DEFAULT, |_| async { Ok(()) });
    let plugin = plugin.await;
    is_watched.store(true, Ordering::Relaxed);
    let (health, ()) = tokio::join!(plugin.health(), async {
        until("both questions", || async {
            (asked.load(Ordering::Relaxed) == 2).then_some(())
        })
        .await;
        rig.clock.advance(seconds(5));
    });
    assert_eq!(health.unserved.len(), others.len());
    assert_eq!(counted.load(Ordering::Relaxed), 1, "asked after a failure");
}

#[tokio::test]
async fn a_settlement_whose_answer_is_lost_is_repeated_and_counts_once() {
    let mut rig = Rig::default();
    let calls = AtomicU32::new(0);
    let plan = move |edge| match edge {
        "settle" if calls.fetch_add(1, Ordering::Relaxed) < 3 => Fault::AnswerLost,
        _ => Fault::None,
    };
    rig.store = Arc::new(FaultyStore::new(rig.store.clone(), plan));
    let plugin = rig
        .start(retrying(2), |_| async {
            Err(TaskError::retry_after(hours(24), "x"))
        })
        .await;
    let tasks = plugin.submit_service();
    send(&tasks, "a", Duration::ZERO).await;
    rig.next().await;
    until("the repeated settlement", || async {
        rig.clock.advance(millis(100));
        (plugin.health().await.handlers[0].settled == 1).then_some(())
    })
    .await;
    assert_eq!(plugin.health().await.handlers[0].locks_lost, 0);
    assert_eq!(info(&tasks, "a").await.history.failures, 1);
}

#[tokio::test]
async fn a_task_whose_lock_has_almost_run_out_when_the_claim_is_answered_is_given_back_unstarted() {
    let mut rig = Rig::default();
    let first = AtomicBool::new(true);
    let clock = rig.clock.clone();
    let plan = move |edge| {
        // As for a process that is stopped after it has sent the claim, or a store that hangs.
        if edge == "claim" && first.swap(false, Ordering::Relaxed) {
            clock.advance(WorkerOptions::DEFAULT.lock * 2 / 3);
        }
        Fault::None
    };
    rig.store = Arc::new(FaultyStore::new(rig.store.clone(), plan));
    let service = TaskSubmitService::new(Arc::clone(&rig.store));
    send(&service, "a", Duration::ZERO).await;
    let _plugin = rig.start(retrying(1), |_| std::future::pending()).await;
    let start = rig.next().await;
    assert_eq!(start.cx.attempt(), 1);
    let running = info(&service, "a").await;
    assert_eq!((running.history.releases, rig.has_started()), (1, false));
}

#[tokio::test]
async fn a_lock_that_cannot_be_extended_is_given_up_in_time() {
    let mut rig = Rig::default();
    let plan = |edge| {
        if edge == "extend" {
            Fault::NotApplied
        } else {
            Fault::None
        }
    };
    let healthy = Arc::clone(&rig.store);
    rig.store = Arc::new(FaultyStore::new(healthy.clone(), plan));
    let plugin = rig
        .start(WorkerOptions::DEFAULT, |start| async move {
            start.cx.cancelled().await;
            Ok(())
        })
        .await;
    let tasks = plugin.submit_service();
    send(&tasks, "a", Duration::ZERO).await;
    let first = rig.next().await;
    // Somebody else takes the task over as soon as its lock runs out, before this process looks
    // again.
    tasks.pause("job", None).await.unwrap();
    rig.clock.advance(seconds(29));
    assert!(!first.cx.is_cancelled());
    rig.clock.advance(seconds(1));
    soon("the notice to the worker", first.cx.cancelled()).await;
    until("the loss is counted", || async {
        (plugin.health().await.handlers[0].locks_lost > 0).then_some(())
    })
    .await;
}

/// A runtime without a free thread comes to the worker only when its lock has run out.
#[test]
fn a_worker_whose_lock_is_lost_before_its_first_line_is_not_started() {
    let own = tokio::runtime::Runtime::new().unwrap();
    let busy = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let mut rig = Rig::default();
    let plan = |edge| match edge {
        "extend" => Fault::NotApplied,
        _ => Fault::None,
    };
    rig.store = Arc::new(FaultyStore::new(Arc::clone(&rig.store), plan));
    // Its workers run only while something is awaited on `busy`.
    let plugin = busy.block_on(rig.start(WorkerOptions::DEFAULT, |_| async { Ok(()) }));
    let tasks = plugin.submit_service();
    let count = async |what: fn(&HandlerHealth) -> bool| {
        until("the handler's count", || async {
            what(&plugin.health().await.handlers[0]).then_some(())
        })
        .await;
    };
    own.block_on(async {
        send(&tasks, "a", Duration::ZERO).await;
        count(|handler| handler.running == 1).await;
        tasks.pause("job", None).await.unwrap();
        rig.clock.advance(WorkerOptions::DEFAULT.lock);
        count(|handler| handler.locks_lost == 1).await;
    });
    busy.block_on(count(|handler| handler.running == 0));
    assert!(!rig.has_started());
    busy.block_on(async {
        tasks.resume("job").await.unwrap();
        let start = rig.next().await;
        assert_eq!(start.cx.attempt(), 1, "what did not start does not count");
        reaches(&tasks, "a", TaskState::Done).await;
    });
}

/// The store's clock is set ahead, so that the lock is over there long before its holder thinks so.
#[tokio::test]
async fn a_lock_that_somebody_else_has_is_noticed_when_it_is_to_be_extended() {
    let mut rig = Rig::default();
    let store_clock = VirtualClock::default();
    let store = MemoryStore::new(Arc::new(store_clock.clone()), StoreOptions::default());
    rig.store = Arc::new(store);
    let plugin = rig
        .start(ONE_BY_ONE, |start| async move {
            start.cx.cancelled().await;
            Ok(())
        })
        .await;
    send(&plugin.submit_service(), "a", Duration::ZERO).await;
    let start = rig.next().await;
    store_clock.advance(minutes(1));
    let request = ClaimRequest::new(1, minutes(1), rig.clock.now());
    let bucket = Bucket::whole(TaskType::new("job").unwrap());
    let taken = rig.store.claim(&bucket, &request).await.unwrap();
    assert!(taken.tasks[0].lock.fence > start.cx.fence());
    rig.clock.advance(WorkerOptions::DEFAULT.lock / 3);
    soon("the notice to the worker", start.cx.cancelled()).await;
    until("the refused settlement", || async {
        let handler = plugin.health().await.handlers.remove(0);
        (handler.running == 0 && handler.locks_lost == 1).then_some(())
    })
    .await;
    let health = plugin.health().await.handlers.remove(0);
    assert_eq!((health.started, health.settled), (1, 0));
}

/// The same, when its holder hears of it by the settlement only.
#[tokio::test]
async fn a_refused_settlement_is_counted_as_a_lost_lock_and_not_as_settled() {
    let mut rig = Rig::default();
    let store_clock = VirtualClock::default();
    let store = MemoryStore::new(Arc::new(store_clock.clone()), StoreOptions::default());
    rig.store = Arc::new(store);
    let may_return = Arc::new(Notify::new());
    let gate = Arc::clone(&may_return);
    let plugin = rig
        .start(ONE_BY_ONE, move |start| {
            let gate = Arc::clone(&gate);
            async move {
                if start.message == "lost" {
                    gate.notified().await;
                }
                Ok(())
            }
        })
        .await;
    let tasks = plugin.submit_service();
    send(&tasks, "lost", Duration::ZERO).await;
    rig.next().await;
    store_clock.advance(minutes(1));
    let request = ClaimRequest::new(1, minutes(1), rig.clock.now());
    let bucket = Bucket::whole(TaskType::new("job").unwrap());
    rig.store.claim(&bucket, &request).await.unwrap();
    may_return.notify_one();
    rig.clock.advance(minutes(1));
    send(&tasks, "done", Duration::ZERO).await;
    until("both settlements", || async {
        let handler = plugin.health().await.handlers.remove(0);
        (handler.locks_lost == 1 && handler.settled == 1 && handler.started == 2).then_some(())
    })
    .await;
}

/// A failed extension is tried again soon, not at once: a store that is down must not be flooded.
#[tokio::test]
async fn a_failed_extension_is_tried_again_after_a_wait() {
    let mut rig = Rig::default();
    let calls = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&calls);
    let plan = move |edge| match edge {
        "extend" => {
            counted.fetch_add(1, Ordering::Relaxed);
            Fault::NotApplied
        }
        _ => Fault::None,
    };
    rig.store = Arc::new(FaultyStore::new(rig.store.clone(), plan));
    let plugin = rig
        .start(WorkerOptions::DEFAULT, |_| std::future::pending())
        .await;
    send(&plugin.submit_service(), "a", Duration::ZERO).await;
    rig.next().await;
    rig.clock.advance(WorkerOptions::DEFAULT.lock / 3);
    let tried = |times| calls.load(Ordering::Relaxed) >= times;
    until("the first try", || async { tried(1).then_some(()) }).await;
    let begun = rig.clock.elapsed();
    until("three more", || async {
        rig.clock.advance(millis(10));
        tried(4).then_some(())
    })
    .await;
    assert!(rig.clock.elapsed() >= begun + 3 * millis(200));
}

#[tokio::test]
async fn a_claim_answered_within_half_of_its_locks_still_starts_its_tasks() {
    let mut rig = Rig::default();
    let first = AtomicBool::new(true);
    let clock = rig.clock.clone();
    let plan = move |edge| {
        if edge == "claim" && first.swap(false, Ordering::Relaxed) {
            clock.advance(WorkerOptions::DEFAULT.lock / 2);
        }
        Fault::None
    };
    rig.store = Arc::new(FaultyStore::new(rig.store.clone(), plan));
    let service = TaskSubmitService::new(Arc::clone(&rig.store));
    send(&service, "a", Duration::ZERO).await;
    let _plugin = rig.start(retrying(1), |_| std::future::pending()).await;
    rig.next().await;
    assert_eq!(info(&service, "a").await.history.releases, 0);
}

#[tokio::test]
async fn a_worker_that_heeds_the_notice_of_a_shutdown_has_the_end_that_it_returns() {
    let mut rig = Rig::default();
    let plugin = rig
        .start(WorkerOptions::DEFAULT, |start| async move {
            start.cx.cancelled().await;
            Ok(())
        })
        .await;
    let tasks = plugin.submit_service();
    send(&tasks, "a", Duration::ZERO).await;
    rig.next().await;
    // The time stands still after the grace time, so that the notice does not end.
    soon("the shutdown", async {
        tokio::join!(plugin.shutdown(seconds(7)), async {
            rig.clock.advance(seconds(7));
        })
    })
    .await;
    assert_eq!(info(&tasks, "a").await.state, TaskState::Done);
}

/// Late is for those that nobody could start in time, not for those that failed and wait for their
/// repeat.
#[tokio::test]
async fn a_task_is_too_late_only_for_its_first_start_and_only_beyond_the_limit() {
    let mut rig = Rig::default();
    let late = LatePolicy {
        after: minutes(1),
        action: OnLate::Drop,
    };
    let options = WorkerOptions {
        late,
        ..retrying(2)
    };
    let service = TaskSubmitService::new(Arc::clone(&rig.store));
    send(&service, "a", Duration::ZERO).await;
    rig.clock.advance(minutes(1));
    let plugin = rig
        .start(options, |start| async move {
            match start.cx.attempt() {
                1 => Err(TaskError::retry_after(seconds(1), "once")),
                _ => Ok(()),
            }
        })
        .await;
    assert_eq!(rig.next().await.cx.lateness(), minutes(1));
    until("the retry", || async {
        (info(&service, "a").await.history.failures == 1).then_some(())
    })
    .await;
    rig.clock.advance(minutes(10));
    assert_eq!(rig.next().await.cx.attempt(), 2);
    reaches(&service, "a", TaskState::Done).await;
    plugin.shutdown(Duration::ZERO).await;
}

/// Nor does it ask for none, again and again.
#[tokio::test]
async fn a_handler_whose_places_are_taken_claims_nothing() {
    let mut rig = Rig::default();
    let (claims, extensions) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
    let counts = (Arc::clone(&claims), Arc::clone(&extensions));
    let plan = move |edge| {
        match edge {
            "claim" => counts.0.fetch_add(1, Ordering::Relaxed),
            "extend" => counts.1.fetch_add(1, Ordering::Relaxed),
            _ => 0,
        };
        Fault::None
    };
    rig.store = Arc::new(FaultyStore::new(rig.store.clone(), plan));
    let plugin = rig.start(ONE_BY_ONE, |_| std::future::pending()).await;
    let tasks = plugin.submit_service();
    send(&tasks, "a", Duration::ZERO).await;
    rig.next().await;
    let before = claims.load(Ordering::Relaxed);
    send(&tasks, "b", Duration::ZERO).await;
    for third in 1..4 {
        rig.clock.advance(WorkerOptions::DEFAULT.lock / 3);
        until("an extension", || async {
            (extensions.load(Ordering::Relaxed) >= third).then_some(())
        })
        .await;
    }
    assert_eq!(claims.load(Ordering::Relaxed), before);
}

#[tokio::test]
async fn a_store_clock_that_jumps_ahead_starts_nothing_early_and_health_tells() {
    let mut rig = Rig::default();
    let store_clock = VirtualClock::default();
    let store = MemoryStore::new(Arc::new(store_clock.clone()), StoreOptions::default());
    rig.store = Arc::new(store);
    let plugin = rig
        .start(WorkerOptions::DEFAULT, |_| async { Ok(()) })
        .await;
    let tasks = plugin.submit_service();
    send(&tasks, "a", minutes(30)).await;
    store_clock.advance(hours(1));
    rig.pass(&plugin, minutes(29)).await;
    assert!(!rig.has_started());
    let skew = plugin.health().await.handlers[0].clock_skew;
    let is_ahead = matches!(skew, Some(ClockSkew::StoreAhead(span)) if span > minutes(30));
    assert!(is_ahead, "{skew:?}");
    rig.clock.advance(minutes(1));
    rig.next().await;
}

#[tokio::test]
async fn a_step_of_the_hosts_clock_loses_no_lock_and_starts_nothing_early() {
    let mut rig = Rig::default();
    let store_clock = VirtualClock::default();
    let store = MemoryStore::new(Arc::new(store_clock.clone()), StoreOptions::default());
    rig.store = Arc::new(store);
    let plugin = rig
        .start(WorkerOptions::DEFAULT, |start| async move {
            if start.message == "long" {
                std::future::pending().await
            } else {
                Ok(())
            }
        })
        .await;
    let tasks = plugin.submit_service();
    send(&tasks, "long", Duration::ZERO).await;
    let long = rig.next().await;
    send(&tasks, "later", minutes(30)).await;
    rig.clock.set(rig.clock.now().plus(hours(1)));
    rig.pass(&plugin, seconds(1)).await;
    assert!(!rig.has_started() && !long.cx.is_cancelled());
    rig.clock.set(rig.clock.now().minus(hours(2)));
    rig.pass(&plugin, seconds(1)).await;
    assert!(!rig.has_started() && !long.cx.is_cancelled());
}

#[tokio::test]
async fn no_more_workers_run_at_once_than_the_concurrency() {
    let mut rig = Rig::default();
    let options = WorkerOptions {
        concurrency: 3,
        ..WorkerOptions::DEFAULT
    };
    let go = Arc::new(tokio::sync::Semaphore::new(0));
    let gate = Arc::clone(&go);
    let plugin = rig
        .start(options, move |_| {
            let gate = Arc::clone(&gate);
            async move {
                gate.acquire().await?.forget();
                Ok(())
            }
        })
        .await;
    let tasks = plugin.submit_service();
    for id in ["a", "b", "c", "d"] {
        send(&tasks, id, Duration::ZERO).await;
    }
    for _ in 0..3 {
        rig.next().await;
    }
    rig.clock.advance(seconds(1));
    assert_eq!(tasks.stats("job").await.unwrap().running, 3);
    assert!(!rig.has_started());
    go.add_permits(1);
    rig.next().await;
    go.add_permits(3);
    for id in ["a", "b", "c", "d"] {
        reaches(&tasks, id, TaskState::Done).await;
    }
}

#[tokio::test]
async fn many_types_share_a_few_threads() {
    let mut rig = Rig::default();
    let mut builder = rig.builder().threads(2);
    for n in 0..20 {
        let worker = rig.worker(|_| async { Ok(()) });
        builder = builder.worker(format!("type.{n}"), WorkerOptions::DEFAULT, worker);
    }
    let plugin = builder.start().await.unwrap();
    let tasks = plugin.submit_service();
    for n in 0..20 {
        tasks
            .send(DelayQueueJob::raw(format!("type.{n}"), "x"))
            .await
            .unwrap();
    }
    for _ in 0..20 {
        rig.next().await;
    }
    plugin.shutdown(Duration::ZERO).await;
}

#[tokio::test]
async fn a_plugin_that_cannot_work_does_not_start_and_says_why() {
    let rig = Rig::default();
    let message = |error: StartError| error.to_string();
    let nobody = rig.builder().start().await.unwrap_err();
    assert!(matches!(nobody, StartError::NoWorkers), "{nobody}");

    let ok = || rig.worker(|_| async { Ok(()) });
    let builder = || rig.builder().worker("job", WorkerOptions::DEFAULT, ok());
    let missing = builder()
        .expect_types(["job", "mail"])
        .start()
        .await
        .unwrap_err();
    assert!(message(missing).contains("expected types mail; registered: job"));
    let twice = builder()
        .worker("job", WorkerOptions::DEFAULT, ok())
        .start()
        .await
        .unwrap_err();
    assert!(message(twice).contains("give one another name"));
    // Found in review: what has succeeded is remembered by name, so the second would have been left
    // out.
    let namesakes = |one: &str, other: &str| {
        let builder = rig.builder();
        let builder = builder.worker(one, WorkerOptions::DEFAULT, ok());
        builder.worker(other, WorkerOptions::DEFAULT, ok()).start()
    };
    let meeting = namesakes("report.*", "report.sales.*").await.unwrap_err();
    assert!(message(meeting).contains("give one another name"));
    assert!(namesakes("report.*", "mail.*").await.is_ok());
    assert!(namesakes("report.*", "report.sales").await.is_ok());
    let options = WorkerOptions {
        lock: Duration::MAX,
        ..WorkerOptions::DEFAULT
    };
    let long = rig.builder().worker("job", options, ok()).start().await;
    assert!(message(long.unwrap_err()).contains("at most 10 years"));
    let options = WorkerOptions {
        lock: millis(999),
        ..WorkerOptions::DEFAULT
    };
    let never = WorkerOptions {
        retry: RetryPolicy {
            max_attempts: 0,
            ..RetryPolicy::DEFAULT
        },
        ..WorkerOptions::DEFAULT
    };
    let never = rig.builder().worker("job", never, ok()).start().await;
    assert!(message(never.unwrap_err()).contains("at least 1"));
    let short = rig
        .builder()
        .worker("job", options, ok())
        .start()
        .await
        .unwrap_err();
    assert!(message(short).contains("at least 1 s"));
    let bad = rig
        .builder()
        .worker("no blanks", options, ok())
        .start()
        .await
        .unwrap_err();
    assert!(message(bad).contains("at least 1 s"));

    let durable = DelayQueuePlugin::builder()
        .without_registered_workers()
        .url("memory:");
    let durable = durable
        .worker("job", WorkerOptions::DEFAULT, ok())
        .durability(Durability::Disk);
    assert!(message(durable.start().await.unwrap_err()).contains("lost with the process"));
}
