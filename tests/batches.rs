//! Batches: what follows one runs once, when all of its members have ended, and not before.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use delayq_plugin::{
    Batch, BatchEnd, BatchState, CancelOutcome, DeadFilter, DelayQueueJob, DelayQueuePlugin,
    DelayQueuePluginBuilder, Error, Limits, RetryPolicy, StartError, TaskError, TaskState,
    TaskSubmitService, WorkerOptions, minutes, seconds,
};
use delayq_testing::{Fault, FaultyStore, TestQueue};
use delayq_tests::redis_server::{Persistence, RedisServer};
use delayq_tests::rig::{Rig, Start, soon, until};
use tokio::sync::mpsc;

/// No retry: an error is a dead task.
const ONCE: WorkerOptions = WorkerOptions {
    retry: RetryPolicy::NEVER,
    ..WorkerOptions::DEFAULT
};

fn job(message: &str) -> DelayQueueJob {
    DelayQueueJob::raw("job", message)
}

fn report() -> DelayQueueJob {
    DelayQueueJob::raw("report", "sales").header("by", "me")
}

/// A worker for members, which does what their message says, and one for what follows.
fn with_workers(rig: &Rig) -> impl FnOnce(DelayQueuePluginBuilder) -> DelayQueuePluginBuilder {
    let member = rig.worker(|start: Start| async move {
        match &start.message[..] {
            "bad" if !start.cx.is_repeat() => Err(TaskError::dead("bad")),
            "endless" => {
                start.cx.cancelled().await;
                Err(TaskError::retry("stopped"))
            }
            _ => Ok(()),
        }
    });
    let report = rig.worker(|_| async { Ok(()) });
    move |builder| {
        let builder = builder.without_registered_workers();
        let builder = builder.worker("job", ONCE, member);
        builder.worker("report", ONCE, report)
    }
}

/// What has started since the last call: the messages of members, and the counts of batches.
async fn started(rig: &mut Rig) -> (Vec<String>, Vec<BatchEnd>) {
    let (mut members, mut ends) = (Vec::new(), Vec::new());
    while rig.has_started() {
        let start = rig.next().await;
        match start.cx.batch() {
            Some(end) => {
                assert_eq!(start.cx.header("by"), Some("me"));
                assert_eq!(start.message, "sales");
                ends.push(end);
            }
            None => members.push(start.message),
        }
    }
    members.sort();
    (members, ends)
}

fn end(total: u64, counts: impl FnOnce(&mut BatchEnd)) -> BatchEnd {
    let mut end = BatchEnd::new("import-7", total);
    counts(&mut end);
    end
}

#[tokio::test]
async fn what_follows_a_batch_runs_once_when_all_members_have_ended() {
    let mut rig = Rig::default();
    let queue = TestQueue::start(with_workers(&rig)).await.unwrap();
    let tasks = queue.tasks();
    let jobs = [
        job("fast"),
        job("bad").id("own"),
        job("none").after("1h"),
        job("expired")
            .at(queue.now().plus(seconds(5)))
            .expires_at(queue.now()),
        job("slow").after("2h"),
    ];
    let batch = Batch::new("import-7").jobs(jobs).then(report());
    let receipt = tasks.send_batch(batch.clone()).await.unwrap();
    let ids: Vec<_> = receipt.members.iter().map(|one| one.id.as_str()).collect();
    let (first, last) = ("import-7/0", "import-7/4");
    assert_eq!(ids, [first, "own", "import-7/2", "import-7/3", last]);
    queue.advance("2m").await;
    let cancelled = tasks.cancel("job", "import-7/2").await;
    assert_eq!(cancelled, Ok(CancelOutcome::Cancelled));
    // Repeated while it waits, in full.
    assert_eq!(
        tasks.send_batch(batch.clone()).await.unwrap().completion_id,
        receipt.completion_id
    );
    let progress = tasks.batch("import-7").await.unwrap().unwrap();
    let mut counts = end(5, |end| {
        (end.done, end.dead, end.cancelled, end.expired) = (1, 1, 1, 1);
    });
    assert_eq!(
        (progress.state, progress.is_exact),
        (BatchState::Waiting, true)
    );
    assert_eq!(progress.counts, Some(counts.clone()));
    queue.advance(minutes(117)).await;
    assert_eq!(
        started(&mut rig).await,
        (vec!["bad".into(), "fast".into()], vec![])
    );

    queue.advance("72s").await;
    counts.done = 2;
    assert_eq!(started(&mut rig).await, (vec!["slow".into()], vec![counts]));
    let progress = tasks.batch("import-7").await.unwrap().unwrap();
    assert_eq!((progress.state, progress.counts), (BatchState::Over, None));
    // Another batch of the name, now that this one is over.
    let other = Batch::new("import-7").job(job("other")).then(report());
    let other = tasks.send_batch(other).await.unwrap();
    assert_ne!(other.completion_id, receipt.completion_id);
    queue.advance("2s").await;
    let (members, ends) = started(&mut rig).await;
    assert_eq!(
        (members, ends),
        (vec!["other".into()], vec![end(1, |end| end.done = 1)])
    );
}

#[tokio::test]
async fn a_repeat_after_the_end_runs_nothing_again() {
    let mut rig = Rig::default();
    let queue = TestQueue::start(with_workers(&rig)).await.unwrap();
    let jobs = [job("a"), job("bad").after("3s"), job("c").id("own")];
    let batch = Batch::new("import-7").jobs(jobs).then(report());
    for expected in [1, 0, 0] {
        queue.tasks().send_batch(batch.clone()).await.unwrap();
        queue.advance("1m").await;
        assert_eq!(started(&mut rig).await.1.len(), expected);
        // What follows would have other counts now.
        let all = DeadFilter::all();
        let requeued = queue.tasks().requeue_dead("job", &all, Duration::ZERO);
        assert_eq!(requeued.await.unwrap().len(), expected);
        queue.run_due().await;
    }
    // No members: at once.
    let empty = Batch::new("empty").then(report());
    queue.tasks().send_batch(empty).await.unwrap();
    queue.run_due().await;
    let expected = (vec![], vec![BatchEnd::new("empty", 0)]);
    assert_eq!(started(&mut rig).await, expected);
}

#[tokio::test]
async fn a_batch_in_an_inline_queue_is_over_a_second_later() {
    let mut rig = Rig::default();
    let queue = TestQueue::inline(with_workers(&rig)).await.unwrap();
    let jobs = [job("a"), job("b").after("3h")];
    let batch = Batch::new("import-7").jobs(jobs).then(report());
    queue.tasks().send_batch(batch).await.unwrap();
    assert_eq!(started(&mut rig).await.0, ["a", "b"]);
    queue.advance("1s").await;
    let expected = end(2, |end| end.done = 2);
    assert_eq!(started(&mut rig).await.1, [expected]);
}

/// More members than one look passes, most of them forgotten by then, and one that is dead.
#[tokio::test]
async fn a_large_batch_waits_for_its_dead_member_until_it_is_requeued() {
    let mut rig = Rig::default();
    let queue = TestQueue::start(with_workers(&rig)).await.unwrap();
    let tasks = queue.tasks();
    let jobs = (0..2_500).map(|_| job("good"));
    let batch = Batch::new("import-7")
        .job(job("bad"))
        .jobs(jobs)
        .then(report());
    tasks.send_batch(batch.wait_for_dead()).await.unwrap();
    queue.advance("15m").await;
    assert_eq!(started(&mut rig).await.1, []);
    let progress = tasks.batch("import-7").await.unwrap().unwrap();
    assert!(!progress.is_exact && progress.state == BatchState::Waiting);
    let requeued = tasks
        .requeue_dead("job", &DeadFilter::all(), Duration::ZERO)
        .await;
    assert_eq!(requeued.unwrap().len(), 1);
    queue.advance("12s").await;
    let expected = end(2_501, |end| (end.done, end.forgotten) = (1, 2_500));
    assert_eq!(started(&mut rig).await.1, [expected]);
}

/// A week passes in some hundred looks; a call makes it look at once.
#[tokio::test]
async fn a_batch_that_waits_for_a_late_member_looks_seldom() {
    let mut rig = Rig::default();
    let queue = TestQueue::start(with_workers(&rig)).await.unwrap();
    let tasks = queue.tasks();
    let batch = Batch::new("import-7")
        .job(job("a").after("8d"))
        .then(report());
    tasks.send_batch(batch).await.unwrap();
    queue.advance("7d").await;
    let cancelled = tasks.cancel("job", "import-7/0").await;
    assert_eq!(cancelled, Ok(CancelOutcome::Cancelled));
    let _ = tasks.run_now("delayq.batch", "import-7").await.unwrap();
    queue.run_due().await;
    let expected = end(1, |end| end.cancelled = 1);
    assert_eq!(started(&mut rig).await.1, [expected]);
}

#[tokio::test]
async fn a_cancelled_batch_stops_its_members_and_nothing_follows() {
    let mut rig = Rig::default();
    let queue = TestQueue::start(with_workers(&rig)).await.unwrap();
    let tasks = queue.tasks();
    let jobs = [job("a"), job("b").after("1h"), job("c").after("1h")];
    let batch = Batch::new("import-7").jobs(jobs).then(report());
    tasks.send_batch(batch.clone()).await.unwrap();
    queue.advance("5s").await;
    // It need not allow messages as large as the sender of the batch did.
    let limits = Limits {
        max_message_bytes: 1,
        ..Limits::default()
    };
    let other = tasks.clone().with_limits(limits);
    let report = other.cancel_batch("import-7").await.unwrap().unwrap();
    assert_eq!((report.changed, report.running, report.matched), (2, 0, 2));
    let state = tasks.batch("import-7").await.unwrap().unwrap().state;
    assert_eq!(state, BatchState::Cancelled);
    let again = tasks.send_batch(batch).await;
    assert!(matches!(again, Err(Error::Conflict { .. })), "{again:?}");
    queue.advance("2h").await;
    assert_eq!(started(&mut rig).await, (vec!["a".into()], vec![]));
    assert_eq!(tasks.cancel_batch("import-7").await, Ok(None));
    assert_eq!(tasks.cancel_batch("unknown").await, Ok(None));
}

/// A look is under way when the batch is cancelled, and finds its members ended.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_follows_a_batch_that_is_cancelled_beside_a_look() {
    let mut rig = Rig::default();
    let (looks, mut looked) = mpsc::unbounded_channel();
    let (go_on, gone_on) = std::sync::mpsc::channel::<()>();
    let (store, gone_on) = (Arc::clone(&rig.store), Mutex::new(gone_on));
    rig.store = Arc::new(FaultyStore::new(store.clone(), move |call| {
        if call == "find" && looks.send(()).is_ok() {
            let _ = gone_on.lock().unwrap().recv();
        }
        Fault::None
    }));
    let plugin = with_workers(&rig)(rig.builder()).start().await.unwrap();
    let tasks = TaskSubmitService::new(store);
    let batch = Batch::new("import-7")
        .job(job("a").after("1h"))
        .then(report());
    tasks.send_batch(batch).await.unwrap();
    rig.clock.advance(seconds(1));
    soon("the look", looked.recv()).await;
    let report = tasks.cancel_batch("import-7").await.unwrap().unwrap();
    assert_eq!(report.changed, 1);
    // Later looks are not held up.
    drop((looked, go_on));
    until("the end of the batch", async || {
        rig.clock.advance(seconds(1));
        let progress = tasks.batch("import-7").await.unwrap();
        (progress?.state == BatchState::Over).then_some(())
    })
    .await;
    rig.pass(&plugin, minutes(1)).await;
    assert_eq!(started(&mut rig).await.1, []);
}

#[tokio::test]
async fn what_is_no_batch_is_refused_before_anything_is_sent() {
    let rig = Rig::default();
    let queue = TestQueue::start(with_workers(&rig)).await.unwrap();
    let tasks = queue.tasks();
    let long = |index| job("m").id(format!("{index:0>128}"));
    let throttled = job("m").id("t").throttle("1h");
    // As many headers as a job may have.
    let full = (1..64).fold(report(), |job, index| job.header(format!("h{index}"), ""));
    let refused = [
        ("write .then(job)", Batch::new("a").job(job("m"))),
        ("leave out .id(..)", Batch::new("a").then(report().id("r"))),
        ("1 to 64", Batch::new("a".repeat(65)).then(report())),
        ("task id", Batch::new("a b").then(report())),
        (
            "debounce",
            Batch::new("a").then(report().debounce("1s", "2s")),
        ),
        (
            "100001",
            Batch::new("a")
                .jobs((0..=100_000).map(|_| job("m")))
                .then(report()),
        ),
        ("throttle", Batch::new("a").job(throttled).then(report())),
        ("delayq-batch", Batch::new("a").then(full)),
        (
            "ids of its members",
            Batch::new("a").jobs((0..3_000).map(long)).then(report()),
        ),
    ];
    for (why, batch) in refused {
        let error = tasks.send_batch(batch).await.unwrap_err().to_string();
        assert!(error.contains(why), "{error}");
    }
    let batch = |message| Batch::new("a").job(job(message).after("1h")).then(report());
    tasks.send_batch(batch("one")).await.unwrap();
    let other = tasks.send_batch(batch("two")).await;
    assert!(matches!(other, Err(Error::Conflict { task_type, .. }) if task_type == "delayq.batch"));
    assert_eq!(queue.scheduled("job").await.len(), 1);
}

/// Each call of the watcher, and of the sender, fails once in each way.
#[tokio::test]
async fn no_fault_loses_what_follows_or_doubles_it() {
    for operation in ["submit", "find", "settle", "claim"] {
        for (nth, fault) in
            (1..=6).flat_map(|nth| [(nth, Fault::NotApplied), (nth, Fault::AnswerLost)])
        {
            let mut rig = Rig::default();
            let queue = TestQueue::start(with_workers(&rig)).await.unwrap();
            let jobs = [job("a"), job("b").after("3s"), job("c").after("90s")];
            let batch = Batch::new("import-7").jobs(jobs).then(report());
            queue.fail_nth(operation, nth, fault);
            while queue.tasks().send_batch(batch.clone()).await.is_err() {}
            queue.advance("10m").await;
            let (_, ends) = started(&mut rig).await;
            // A lost claim costs a member its only attempt.
            let ended: Vec<_> = ends.iter().map(BatchEnd::ended).collect();
            assert_eq!(ended, [3], "{operation} {nth} {fault:?}");
        }
    }
}

/// The process dies when it has sent what follows, or the request to look again, and before the
/// store has the end of the look.
#[tokio::test]
async fn a_kill_of_the_watcher_doubles_nothing() {
    for last_member in ["0s", "3s"] {
        let mut rig = Rig::default();
        let (store, is_down) = (Arc::clone(&rig.store), Arc::new(AtomicBool::new(false)));
        let (down, sent) = (Arc::clone(&is_down), Arc::new(AtomicU32::new(0)));
        let submits = Arc::clone(&sent);
        let last_sent = AtomicBool::new(false);
        rig.store = Arc::new(FaultyStore::new(store.clone(), move |call| {
            let is_down = down.load(Ordering::Relaxed);
            match call {
                "settle" | "extend" if is_down => Fault::NotApplied,
                // A claim of what follows that dies with the process would cost its only attempt.
                "claim" if last_sent.load(Ordering::Relaxed) => Fault::NotApplied,
                "submit" => {
                    submits.fetch_add(1, Ordering::Relaxed);
                    last_sent.fetch_or(is_down, Ordering::Relaxed);
                    Fault::None
                }
                _ => Fault::None,
            }
        }));
        let killed = with_workers(&rig)(rig.builder()).start().await.unwrap();
        let tasks = killed.submit_service();
        let jobs = [job("a"), job("b").after(last_member)];
        let batch = Batch::new("import-7").jobs(jobs).then(report());
        let receipt = tasks.send_batch(batch).await.unwrap();
        let ended = async |id: &'static str| {
            until("the end of a member", async || {
                let member = tasks.find("job", id).await.unwrap()?;
                (member.state == TaskState::Done).then_some(())
            })
            .await;
        };
        ended("import-7/0").await;
        if last_member == "0s" {
            ended("import-7/1").await;
        }
        is_down.store(true, Ordering::Relaxed);
        let before = sent.load(Ordering::Relaxed);
        rig.clock.advance(seconds(1));
        until("what the look sends", async || {
            (sent.load(Ordering::Relaxed) > before).then_some(())
        })
        .await;
        drop(killed);

        rig.store = store;
        let plugin = with_workers(&rig)(rig.builder()).start().await.unwrap();
        let tasks = plugin.submit_service();
        let state = async || {
            tasks
                .batch("import-7")
                .await
                .unwrap()
                .map(|batch| batch.state)
        };
        until("the end of the batch", async || {
            rig.clock.advance(seconds(1));
            (state().await == Some(BatchState::Over)).then_some(())
        })
        .await;
        // A longer step of the clock would end its lock.
        until("the end of what follows", async || {
            let report = tasks.find("report", receipt.completion_id.as_str());
            let report = report.await.unwrap()?;
            (report.state == TaskState::Done).then_some(())
        })
        .await;
        for _ in 0..20 {
            rig.pass(&plugin, seconds(31)).await;
        }
        assert_eq!(started(&mut rig).await.1.len(), 1, "{last_member}");
    }
}

/// Two instances that serve the members only, on a real store, in real time.
async fn completes_once(url: &str) {
    let (sender, mut starts) = mpsc::unbounded_channel();
    let mut plugins = Vec::new();
    for _ in 0..2 {
        let rig = Rig::default();
        let sender = sender.clone();
        let worker = rig.worker(move |start: Start| {
            let _ = sender.send(start.cx.batch());
            async { Ok(()) }
        });
        let builder = DelayQueuePlugin::builder().without_registered_workers();
        let builder = builder.worker("*", WorkerOptions::DEFAULT, worker);
        let plugin = builder.url(url).only(["job", "report"]).start().await;
        plugins.push(plugin.expect("the plugin starts"));
    }
    let tasks: TaskSubmitService = plugins.first().expect("an instance").submit_service();
    let jobs = (0..300).map(|index| job("m").after(Duration::from_millis(10 * index)));
    let batch = Batch::new("import-7").jobs(jobs).then(report());
    let sent = tasks.send_batch(batch.clone()).await;
    sent.expect("the batch is accepted");
    let mut ends = Vec::new();
    for _ in 0..=300 {
        ends.push(soon("the next start", starts.recv()).await.flatten());
    }
    let last = ends.pop().flatten();
    assert_eq!(
        (last, ends.iter().flatten().count()),
        (Some(end(300, |end| end.done = 300)), 0)
    );
    // Harmless, on every store.
    let sent = tasks.send_batch(batch).await;
    sent.expect("the repeat is accepted");
    until("the end of the repeat", async || {
        let progress = tasks.batch("import-7").await.expect("the store answers");
        (progress?.state == BatchState::Over).then_some(())
    })
    .await;
    for plugin in &plugins {
        plugin.shutdown(seconds(1)).await;
    }
    assert!(starts.is_empty(), "{url}");
}

#[tokio::test]
async fn a_batch_completes_once_on_real_stores() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("batches.sqlite");
    let server = RedisServer::start(Persistence::Always, &[]);
    let file = format!("sqlite:{}", file.display());
    let redis = server.url();
    tokio::join!(completes_once(&file), completes_once(&redis));
}

#[tokio::test]
async fn a_worker_of_the_type_of_watchers_is_refused() {
    let rig = Rig::default();
    let worker = rig.worker(|_| async { Ok(()) });
    let builder = rig.builder().worker("delayq.batch", ONCE, worker);
    let refused = builder.start().await;
    assert!(matches!(refused, Err(StartError::InvalidOption { .. })));
}
