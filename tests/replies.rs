//! What workers answer to those who wait: `cx.reply`, `send_and_wait`, `wait_for_reply`.

#![allow(
    clippy::unwrap_used,
    reason = "what a test must not do in silence, it does by panicking"
)]

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use delayq_plugin::store::StoreOptions;
use delayq_plugin::{
    CancelOutcome, DelayQueueJob, DelayQueuePlugin, Delivery, Namespace, Reply, ReplyOutcome,
    RetryPolicy, TaskError, TaskId, TaskReply, TaskResult, TaskState, TaskSubmitService,
    WorkerOptions, hours, seconds,
};
use delayq_testing::{Fault, FaultyStore};
use delayq_tests::redis_server::RedisServer;
use delayq_tests::rig::{Rig, Start, reaches, send, soon, until};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

const RETRYING: WorkerOptions = WorkerOptions {
    retry: RetryPolicy {
        jitter_percent: 0,
        ..RetryPolicy::DEFAULT
    },
    ..WorkerOptions::DEFAULT
};

/// Does what the message says.
async fn obey(start: Start) -> TaskResult {
    let cx = &start.cx;
    match start.message.as_str() {
        "add" => cx.reply(&(20 + 22))?,
        "twice" => {
            cx.reply_bytes("first")?;
            cx.reply_with(Reply::bytes("second").content_type("text/plain"))?;
        }
        "fail" => {
            cx.reply(&"of an attempt that fails")?;
            return Err(TaskError::dead("no van"));
        }
        "second" if cx.attempt() == 1 => {
            cx.reply(&"of the first")?;
            return Err(TaskError::retry("not yet"));
        }
        _ => {}
    }
    Ok(())
}

fn job(message: &str) -> DelayQueueJob {
    DelayQueueJob::raw("job", message)
}

async fn ask(tasks: &TaskSubmitService, message: &str) -> TaskReply {
    let answer = tasks.send_and_wait(job(message), hours(1));
    soon("the end of the task", answer).await.unwrap()
}

#[tokio::test]
async fn whoever_waits_gets_the_reply_or_why_there_is_none() {
    let mut rig = Rig::default();
    let plugin = rig.start(RETRYING, obey).await;
    let tasks = plugin.submit_service();
    let sum = ask(&tasks, "add").await;
    assert_eq!(sum.json::<u32>(), Ok(42));
    let twice = ask(&tasks, "twice").await;
    let ReplyOutcome::Replied(reply) = &twice.outcome else {
        panic!("{twice:?}");
    };
    assert_eq!(
        (&*reply.body, &*reply.content_type),
        (&b"second"[..], "text/plain")
    );
    assert_eq!(ask(&tasks, "nothing").await.outcome, ReplyOutcome::Done);
    let dead = ask(&tasks, "fail").await;
    let error = "no van".to_owned();
    assert_eq!(dead.outcome, ReplyOutcome::Dead { error });
    let told = dead.json::<u32>().unwrap_err().to_string();
    assert!(told.contains("no van"), "{told}");
    let unknown = tasks.wait_for_reply("job", "nobody", hours(1)).await;
    assert_eq!(unknown.unwrap().outcome, ReplyOutcome::Unknown);
    while rig.has_started() {
        rig.next().await;
    }
}

#[tokio::test]
async fn a_cancelled_and_an_expired_task_end_the_wait() {
    let rig = Rig::default();
    let plugin = rig.start(RETRYING, obey).await;
    let tasks = plugin.submit_service();
    let later = job("add").id("later").after(hours(9));
    let waiting = tokio::spawn({
        let tasks = tasks.clone();
        async move { tasks.send_and_wait(later, hours(10)).await }
    });
    reaches(&tasks, "later", TaskState::Scheduled).await;
    let cancelled = tasks.cancel("job", "later").await;
    assert_eq!(cancelled, Ok(CancelOutcome::Cancelled));
    let end = soon("the end", waiting).await.unwrap().unwrap();
    assert_eq!(end.outcome, ReplyOutcome::Cancelled);

    tasks.pause("job", None).await.unwrap();
    let stale = job("add").id("stale").expires_after(seconds(1));
    tasks.send(stale).await.unwrap();
    let waiting = tokio::spawn({
        let tasks = tasks.clone();
        async move { tasks.wait_for_reply("job", "stale", hours(10)).await }
    });
    rig.clock.advance(seconds(5));
    tasks.resume("job").await.unwrap();
    let end = until("the expiry", || async {
        rig.clock.advance(seconds(1));
        waiting.is_finished().then_some(())
    });
    end.await;
    assert_eq!(
        waiting.await.unwrap().unwrap().outcome,
        ReplyOutcome::Expired
    );
}

#[tokio::test]
async fn after_a_time_out_the_task_goes_on_and_can_be_waited_for_again() {
    let mut rig = Rig::default();
    let plugin = rig.start(RETRYING, obey).await;
    let tasks = plugin.submit_service();
    let waiting = tokio::spawn({
        let tasks = tasks.clone();
        let job = job("add").id("slow").after(seconds(60));
        async move { tasks.send_and_wait(job, seconds(3)).await }
    });
    reaches(&tasks, "slow", TaskState::Scheduled).await;
    until("the time-out", || async {
        rig.clock.advance(Duration::from_millis(50));
        waiting.is_finished().then_some(())
    })
    .await;
    let late = waiting.await.unwrap().unwrap();
    assert_eq!(
        (late.outcome, late.id.as_str()),
        (ReplyOutcome::TimedOut, "slow")
    );
    rig.pass(&plugin, seconds(60)).await;
    rig.next().await;
    let again = tasks.wait_for_reply("job", "slow", hours(1));
    let again = soon("the end", again).await.unwrap();
    assert_eq!(again.json::<u32>(), Ok(42));
}

#[tokio::test]
async fn the_reply_of_an_attempt_that_failed_and_that_of_an_earlier_task_are_nobodys() {
    let mut rig = Rig::default();
    let plugin = rig.start(RETRYING, obey).await;
    let tasks = plugin.submit_service();
    send(&tasks, "second", Duration::ZERO).await;
    rig.next().await;
    reaches(&tasks, "second", TaskState::Scheduled).await;
    rig.pass(&plugin, seconds(2)).await;
    rig.next().await;
    let end = tasks.wait_for_reply("job", "second", hours(1)).await;
    assert_eq!(end.unwrap().outcome, ReplyOutcome::Done);

    let first = tasks.send_and_wait(job("add").id("same"), hours(1));
    assert_eq!(
        soon("the end", first).await.unwrap().body(),
        Some(&b"42"[..])
    );
    let anew = job("nothing").id("same").replace();
    let anew = tasks.send_and_wait(anew, hours(1));
    let anew = soon("the end", anew).await.unwrap();
    assert_eq!(anew.outcome, ReplyOutcome::Done);
    let (task_type, id) = ("job".parse().unwrap(), TaskId::new("same").unwrap());
    let kept = rig.store.reply(&task_type, &id).await.unwrap();
    assert!(kept.is_some(), "the first one is kept, and not shown");
}

/// A crash between the reply and the end: the repeat replies in its place.
#[tokio::test]
async fn a_crash_after_the_reply_leaves_that_of_the_repeat() {
    let mut rig = Rig::default();
    let store = Arc::clone(&rig.store);
    let faulty = FaultyStore::new(store.clone(), |call| match call {
        "settle" | "extend" => Fault::NotApplied,
        _ => Fault::None,
    });
    let crash = faulty.crash();
    rig.store = Arc::new(faulty);
    let script = |start: Start| async move {
        start.cx.reply(&start.cx.attempt())?;
        Ok(())
    };
    let crashed = rig.start(RETRYING, script).await;
    let tasks = TaskSubmitService::new(Arc::clone(&store));
    send(&tasks, "a", Duration::ZERO).await;
    rig.next().await;
    let (task_type, id) = ("job".parse().unwrap(), TaskId::new("a").unwrap());
    let first = until("the reply", || async {
        store.reply(&task_type, &id).await.unwrap()
    })
    .await;
    assert_eq!(first.body, b"1");
    crash.happen_between_calls().await;
    drop(crashed);

    rig.store = store;
    rig.clock.advance(seconds(31));
    let _plugin = rig.start(RETRYING, script).await;
    rig.next().await;
    reaches(&tasks, "a", TaskState::Done).await;
    let end = tasks.wait_for_reply("job", "a", hours(1)).await.unwrap();
    assert_eq!(end.json::<u32>(), Ok(2));
}

#[tokio::test]
async fn an_outage_repeats_the_reply_and_not_the_work() {
    for fault in [Fault::NotApplied, Fault::AnswerLost] {
        let mut rig = Rig::default();
        let failures = AtomicU32::new(0);
        let faulty = move |call| match call {
            "keep_reply" if failures.fetch_add(1, Ordering::Relaxed) < 2 => fault,
            _ => Fault::None,
        };
        rig.store = Arc::new(FaultyStore::new(rig.store.clone(), faulty));
        let plugin = rig.start(RETRYING, obey).await;
        let tasks = plugin.submit_service();
        send(&tasks, "add", Duration::ZERO).await;
        rig.next().await;
        until("the end", || async {
            rig.clock.advance(Duration::from_millis(100));
            let task = tasks.find("job", "add").await.unwrap()?;
            (task.state == TaskState::Done).then_some(())
        })
        .await;
        assert!(!rig.has_started(), "the work was done once");
        let end = tasks.wait_for_reply("job", "add", hours(1)).await.unwrap();
        assert_eq!(end.json::<u32>(), Ok(42));
    }
}

#[tokio::test]
async fn an_at_most_once_type_has_no_replies() {
    let options = WorkerOptions {
        delivery: Delivery::AtMostOnce,
        ..RETRYING
    };
    let rig = Rig::default();
    let (told, mut heard) = mpsc::unbounded_channel();
    let plugin = rig.start(options, move |start: Start| {
        let _ = told.send(start.cx.reply(&1));
        async { Ok(()) }
    });
    let plugin = plugin.await;
    send(&plugin.submit_service(), "a", Duration::ZERO).await;
    let refused = soon("the start", heard.recv()).await.unwrap().unwrap_err();
    assert!(refused.to_string().contains("at-most-once"), "{refused}");
}

/// One process works, another one sends and waits.
async fn over(url: &str) {
    let options = StoreOptions {
        namespace: Namespace::new(TaskId::generate().as_str()).unwrap(),
        ..StoreOptions::default()
    };
    let rig = Rig::default();
    let plugin = DelayQueuePlugin::builder()
        .without_registered_workers()
        .store(
            delayq_plugin::open_store(url, options.clone())
                .await
                .unwrap(),
        )
        .worker("job", RETRYING, rig.worker(obey))
        .start()
        .await
        .unwrap();
    let sender = TaskSubmitService::connect(url, options).await.unwrap();
    let mut answers = JoinSet::new();
    for _ in 0..20 {
        let sender = sender.clone();
        answers.spawn(async move { ask(&sender, "add").await });
    }
    for answer in answers.join_all().await {
        assert_eq!(answer.json::<u32>(), Ok(42));
    }
    assert_eq!(ask(&sender, "nothing").await.outcome, ReplyOutcome::Done);
    plugin.shutdown(Duration::ZERO).await;
    sender.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn another_process_waits_on_sqlite() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tasks.sqlite");
    over(&format!("sqlite:{}", path.display())).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn another_process_waits_on_redis() {
    over(&RedisServer::shared().url()).await;
}
