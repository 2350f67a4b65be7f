//! Recurring tasks: one run an occurrence, over instances, crashes, downtimes and deploys.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use delayq_plugin::{
    CancelOutcome, DeadFilter, DelayQueueJob, DelayQueuePlugin, DelayQueuePluginBuilder, Recurring,
    Result, StartError, TaskError, TaskState, TaskSubmitService, Timestamp, WorkerOptions, days,
    hours, minutes, seconds,
};
use delayq_testing::{Fault, FaultyStore};
use delayq_tests::redis_server::{Persistence, RedisServer};
use delayq_tests::rig::{Rig, Start, soon, until};
use tokio::sync::mpsc;

/// 08:00 in Berlin, on a Tuesday.
const MORNING: i64 = 1_795_503_600_000;

fn rig() -> Rig {
    let rig = Rig::default();
    rig.clock.set(Timestamp::from_millis(MORNING));
    rig
}

fn berlin(every: &str) -> Recurring {
    recurring(every).zone("Europe/Berlin").expect("a zone")
}

fn recurring(every: &str) -> Recurring {
    let recurring = Recurring::new("job", every).expect("a schedule");
    recurring.message(&every).expect("a message")
}

async fn instance(rig: &Rig, recurring: Recurring) -> DelayQueuePlugin {
    let worker = rig.worker(|_| async { Ok(()) });
    let builder = rig.builder().worker("job", WorkerOptions::DEFAULT, worker);
    let started = builder.recurring(recurring).start().await;
    started.expect("the plugin starts")
}

async fn waiting(tasks: &TaskSubmitService) -> Vec<String> {
    let page = tasks.list("job", TaskState::Scheduled, None, 100).await;
    let tasks = page.expect("the store answers").tasks.into_iter();
    tasks.map(|task| task.id.to_string()).collect()
}

/// These wait, and nothing runs: the time may go on, and no lock expires.
async fn waits(tasks: &TaskSubmitService, ids: &[&str]) {
    until(&format!("{ids:?}"), || async {
        let stats = tasks.stats("job").await;
        let running = stats.expect("the store answers").running;
        (running == 0 && waiting(tasks).await == ids).then_some(())
    })
    .await;
}

async fn becomes(tasks: &TaskSubmitService, id: &str, state: TaskState) {
    until(&format!("{state:?}"), || async {
        let found = tasks.find("job", id).await.expect("the store answers")?;
        (found.state == state).then_some(())
    })
    .await;
}

/// Lets `span` pass in steps of a minute, and returns what has started.
async fn pass(rig: &mut Rig, plugins: &[&DelayQueuePlugin], span: Duration) -> Vec<String> {
    let (mut passed, mut started) = (Duration::ZERO, Vec::new());
    while passed < span {
        for plugin in plugins {
            rig.pass(plugin, seconds(60 / plugins.len() as u64)).await;
        }
        passed += minutes(1);
        settled(plugins).await;
        while rig.has_started() {
            started.push(time_of(&rig.next().await));
        }
    }
    started
}

/// No task is running: what has started has been settled.
async fn settled(plugins: &[&DelayQueuePlugin]) {
    let first = plugins.first().expect("an instance");
    let tasks = first.submit_service();
    until("the end of what runs", || async {
        let stats = tasks.stats("job").await.expect("the store answers");
        (stats.running == 0).then_some(())
    })
    .await;
}

/// Of `2026-11-24T09:00:00+01:00[Europe/Berlin]` the day and the time.
fn time_of(start: &Start) -> String {
    let time = start.cx.header("delayq-occurrence");
    let time = time.expect("the header of an occurrence");
    time.chars().skip(8).take(8).collect()
}

#[tokio::test]
async fn each_occurrence_runs_once_over_all_instances() {
    let mut rig = rig();
    let one = instance(&rig, berlin("*/20 8-9 * * *")).await;
    let two = instance(&rig, berlin("*/20 8-9 * * *")).await;
    let tasks = one.submit_service();
    waits(&tasks, &["@2026-11-24T07:20:00Z"]).await;
    let started = pass(&mut rig, &[&one, &two], hours(1)).await;
    assert_eq!(started, ["24T08:20", "24T08:40", "24T09:00"]);
    let infos = two.submit_service().recurring().await.unwrap();
    assert_eq!(infos[0].schedule, "*/20 8-9 * * * Europe/Berlin");
    let next = Timestamp::from_millis(MORNING).plus(minutes(80));
    assert_eq!(infos[0].next, Some(next));
}

/// The worker learns which occurrence it is, and its own failures do not hold up the next one.
#[tokio::test]
async fn an_occurrence_knows_its_time_and_its_end_does_not_matter() {
    let mut rig = rig();
    let worker = rig.worker(|_| async { Err(TaskError::dead("broken")) });
    let builder = rig.builder().worker("job", WorkerOptions::DEFAULT, worker);
    let plugin = builder.recurring(recurring("15m")).start().await.unwrap();
    let tasks = plugin.submit_service();
    waits(&tasks, &["@2026-11-24T07:15:00Z"]).await;
    rig.pass(&plugin, minutes(15)).await;
    let start = rig.next().await;
    let due = Timestamp::from_millis(MORNING).plus(minutes(15));
    assert_eq!(start.cx.occurrence(), Some(due));
    assert_eq!(start.message, "\"15m\"");
    waits(&tasks, &["@2026-11-24T07:30:00Z"]).await;

    // Nor does a cancel: it holds, and the one after comes.
    let cancelled = tasks.cancel("job", "@2026-11-24T07:30:00Z").await;
    assert_eq!(cancelled, Ok(CancelOutcome::Cancelled));
    rig.clock.advance(minutes(1));
    waits(&tasks, &["@2026-11-24T07:45:00Z"]).await;
    // The cancelled one is forgotten by then, and its time has not come.
    rig.clock.advance(minutes(12));
    rig.pass(&plugin, seconds(61)).await;
    waits(&tasks, &["@2026-11-24T07:45:00Z"]).await;
    rig.pass(&plugin, minutes(20)).await;
    assert_eq!(
        rig.next().await.cx.occurrence(),
        Some(due.plus(minutes(30)))
    );
}

/// The process dies when it has claimed an occurrence, before the next one is sent, or after.
#[tokio::test]
async fn a_kill_between_loses_no_occurrence_and_doubles_none() {
    for lost in ["submit", "settle"] {
        let mut rig = rig();
        let (store, is_down) = (Arc::clone(&rig.store), Arc::new(AtomicBool::new(false)));
        let is_killed = Arc::new(AtomicBool::new(false));
        let (down, gone) = (Arc::clone(&is_down), Arc::clone(&is_killed));
        rig.store = Arc::new(FaultyStore::new(store.clone(), move |call| match call {
            _ if gone.load(Ordering::Relaxed) => Fault::NotApplied,
            "extend" | "settle" if down.load(Ordering::Relaxed) => Fault::NotApplied,
            "submit" if down.load(Ordering::Relaxed) && lost == call => Fault::NotApplied,
            _ => Fault::None,
        }));
        let killed = instance(&rig, berlin("0 * * * *")).await;
        let tasks = TaskSubmitService::new(Arc::clone(&store));
        waits(&tasks, &["@2026-11-24T08:00:00Z"]).await;
        is_down.store(true, Ordering::Relaxed);
        rig.clock.advance(hours(1));
        assert_eq!(time_of(&rig.next().await), "24T09:00");
        // Its threads may go on for a moment: what they claim then, nobody would run.
        is_killed.store(true, Ordering::Relaxed);
        drop(killed);

        rig.store = store;
        rig.clock.advance(seconds(31));
        let plugin = instance(&rig, berlin("0 * * * *")).await;
        let again = rig.next().await;
        assert_eq!(
            (time_of(&again), again.cx.attempt()),
            ("24T09:00".to_owned(), 2)
        );
        waits(&tasks, &["@2026-11-24T09:00:00Z"]).await;
        let started = pass(&mut rig, &[&plugin], hours(2)).await;
        assert_eq!(started, ["24T10:00", "24T11:00"], "{lost}");
    }
}

#[tokio::test]
async fn after_a_downtime_the_waiting_occurrence_runs_late_and_the_others_are_skipped() {
    let mut rig = rig();
    let first = instance(&rig, berlin("0 9 * * *")).await;
    let tasks = first.submit_service();
    waits(&tasks, &["@2026-11-24T08:00:00Z"]).await;
    first.shutdown(Duration::ZERO).await;
    rig.clock.advance(days(3) + hours(3));
    let second = instance(&rig, berlin("0 9 * * *")).await;
    let late = rig.next().await;
    assert_eq!(
        (time_of(&late), late.cx.lateness()),
        ("24T09:00".to_owned(), days(3) + hours(2))
    );
    waits(&tasks, &["@2026-11-28T08:00:00Z"]).await;
    let started = pass(&mut rig, &[&second], minutes(3)).await;
    assert_eq!(started, [""; 0]);
}

/// Rolling deploy of another schedule, and back: the instance that started last is right.
#[tokio::test]
async fn of_two_schedules_that_of_the_instance_started_last_holds() {
    let mut rig = rig();
    let old = instance(&rig, berlin("0 9 * * *")).await;
    let tasks = old.submit_service();
    waits(&tasks, &["@2026-11-24T08:00:00Z"]).await;
    rig.clock.advance(minutes(1));
    let new = instance(&rig, berlin("30 8-10 * * *")).await;
    waits(&tasks, &["@2026-11-24T07:30:00Z"]).await;
    let started = pass(&mut rig, &[&old, &new], minutes(75)).await;
    assert_eq!(started, ["24T08:30"], "the one at nine is cancelled");
    let (of_old, of_new) = (old.submit_service(), new.submit_service());
    assert_eq!(of_old.recurring().await.unwrap()[0].next, None);
    assert!(of_new.recurring().await.unwrap()[0].next.is_some());
    new.shutdown(Duration::ZERO).await;
    old.shutdown(Duration::ZERO).await;

    rig.clock.advance(minutes(1));
    let _back = instance(&rig, berlin("0 9 * * *")).await;
    waits(&tasks, &["@2026-11-25T08:00:00Z"]).await;
}

/// An instance of the old schedule is alone for a while and sends its own occurrence: the new one
/// does not run it.
#[tokio::test]
async fn an_occurrence_that_is_superseded_is_not_run() {
    let rig = rig();
    let plugin = instance(&rig, berlin("0 12 * * *")).await;
    let tasks = plugin.submit_service();
    waits(&tasks, &["@2026-11-24T11:00:00Z"]).await;
    let job = DelayQueueJob::raw("job", "old").id("@2026-11-24T08:00:00Z");
    let job = job
        .at("2026-11-24T08:00:00Z")
        .header("delayq-schedule", "0 9 * * * Europe/Berlin");
    let job = job.header("delayq-schedule-since", (MORNING - 1).to_string());
    let occurrence = "2026-11-24T09:00:00+01:00[Europe/Berlin]";
    tasks
        .send(job.header("delayq-occurrence", occurrence))
        .await
        .unwrap();
    rig.clock.advance(hours(1));
    becomes(&tasks, "@2026-11-24T08:00:00Z", TaskState::Done).await;
    assert!(!rig.has_started());
}

/// The search for the next occurrence takes longer than the lock lasts: the attempt is over, and
/// its worker is left to the next one.
#[tokio::test]
async fn a_worker_does_not_start_after_its_lock_has_expired_meanwhile() {
    let mut rig = rig();
    let (store, slow_calls) = (Arc::clone(&rig.store), Arc::new(AtomicU32::new(0)));
    let (slow, clock) = (Arc::clone(&slow_calls), rig.clock.clone());
    let take = |left: u32| left.checked_sub(1);
    rig.store = Arc::new(FaultyStore::new(store, move |call| {
        let (set, get) = (Ordering::Relaxed, Ordering::Relaxed);
        if call == "find" && slow.fetch_update(set, get, take).is_ok() {
            clock.advance(seconds(31));
        }
        Fault::None
    }));
    let plugin = instance(&rig, recurring("15m")).await;
    waits(&plugin.submit_service(), &["@2026-11-24T07:15:00Z"]).await;
    // One for the check that is made once a minute.
    slow_calls.store(2, Ordering::Relaxed);
    rig.clock.advance(minutes(15));
    while !rig.has_started() {
        rig.pass(&plugin, seconds(1)).await;
    }
    let start = rig.next().await;
    let lock_ends = start.cx.due_at().plus(start.cx.lateness() + seconds(30));
    let started_at = Timestamp::from_millis(MORNING).plus(start.at);
    assert!(started_at < lock_ends, "{started_at} {lock_ends}");
}

/// A deploy does not take its retries from an occurrence that has failed, nor its requeue.
#[tokio::test]
async fn an_occurrence_that_was_tried_runs_again_after_its_schedule_was_changed() {
    let mut rig = rig();
    let failing = |start: Start| async move {
        match start.cx.attempt() {
            1 => Err(TaskError::retry_after(minutes(5), "not yet")),
            _ => Err(TaskError::dead("never")),
        }
    };
    let plugin = async |rig: &Rig, every: &str| {
        let builder = rig.builder().recurring(berlin(every));
        let builder = builder.worker("job", WorkerOptions::DEFAULT, rig.worker(failing));
        builder.start().await.expect("the plugin starts")
    };
    let old = plugin(&rig, "0 9 * * *").await;
    let tasks = old.submit_service();
    waits(&tasks, &["@2026-11-24T08:00:00Z"]).await;
    rig.clock.advance(hours(1));
    assert_eq!(time_of(&rig.next().await), "24T09:00");
    waits(&tasks, &["@2026-11-24T08:00:00Z", "@2026-11-25T08:00:00Z"]).await;
    old.shutdown(Duration::ZERO).await;

    rig.clock.advance(minutes(1));
    let _new = plugin(&rig, "0 12 * * *").await;
    waits(&tasks, &["@2026-11-24T08:00:00Z", "@2026-11-24T11:00:00Z"]).await;
    rig.clock.advance(minutes(4));
    assert_eq!(rig.next().await.cx.attempt(), 2);
    becomes(&tasks, "@2026-11-24T08:00:00Z", TaskState::Dead).await;
    let all = DeadFilter::all();
    let requeued = tasks.requeue_dead("job", &all, Duration::ZERO).await;
    assert_eq!(requeued.unwrap().len(), 1);
    assert_eq!(time_of(&rig.next().await), "24T09:00");
}

/// It was sent by an instance whose connection hung, and has run, ended and been forgotten since.
#[tokio::test]
async fn an_occurrence_that_reaches_the_store_after_its_time_is_not_run() {
    let mut rig = rig();
    let plugin = instance(&rig, recurring("15m")).await;
    let tasks = plugin.submit_service();
    waits(&tasks, &["@2026-11-24T07:15:00Z"]).await;
    rig.clock.advance(minutes(14));
    let page = tasks.list("job", TaskState::Scheduled, None, 1).await;
    let sent = page.unwrap().tasks.remove(0);
    rig.pass(&plugin, minutes(1)).await;
    assert_eq!(rig.next().await.cx.id(), &sent.id);
    waits(&tasks, &["@2026-11-24T07:30:00Z"]).await;
    rig.pass(&plugin, minutes(11)).await;
    let again = DelayQueueJob::raw("job", "null").id(sent.id.as_str());
    let headers = sent.headers.into_iter();
    let again = headers.fold(again, |job, (name, value)| job.header(name, value));
    tasks.send(again.at("2026-11-24T07:15Z")).await.unwrap();
    becomes(&tasks, sent.id.as_str(), TaskState::Done).await;
    assert!(!rig.has_started());
    waits(&tasks, &["@2026-11-24T07:30:00Z"]).await;
}

#[tokio::test]
async fn a_removed_schedule_ends_with_its_waiting_occurrence_or_before() {
    let rig = rig();
    let first = instance(&rig, berlin("0 9 * * *").name("nine").unwrap()).await;
    let tasks = first.submit_service();
    waits(&tasks, &["nine@2026-11-24T08:00:00Z"]).await;
    first.shutdown(Duration::ZERO).await;
    let without = rig
        .start(WorkerOptions::DEFAULT, |_| async { Ok(()) })
        .await;
    assert_eq!(tasks.remove_recurring("job", "ten").await, Ok(0));
    assert_eq!(tasks.remove_recurring("job", "nine").await, Ok(1));
    rig.pass(&without, hours(2)).await;
    assert!(!rig.has_started());
    assert_eq!(waiting(&tasks).await, [""; 0]);
}

/// Two instances on a real store, in real time.
async fn runs_once(url: &str) {
    let (sender, mut starts) = mpsc::unbounded_channel();
    let mut plugins = Vec::new();
    for _ in 0..2 {
        let rig = Rig::default();
        let sender = sender.clone();
        let worker = rig.worker(move |start: Start| {
            let _ = sender.send(start.cx.occurrence());
            async { Ok(()) }
        });
        let builder = DelayQueuePlugin::builder().without_registered_workers();
        let builder = builder.url(url).recurring(recurring("1s"));
        let plugin = builder
            .worker("job", WorkerOptions::DEFAULT, worker)
            .start()
            .await;
        plugins.push(plugin.expect("the plugin starts"));
    }
    let mut seen = Vec::new();
    while seen.len() < 4 {
        seen.push(soon("the next occurrence", starts.recv()).await.flatten());
    }
    for plugin in &plugins {
        plugin.shutdown(seconds(1)).await;
    }
    assert!(seen.is_sorted_by(|one, next| one < next), "{url}: {seen:?}");
    assert!(seen.iter().all(Option::is_some), "{seen:?}");
}

#[tokio::test]
async fn each_occurrence_runs_once_on_real_stores() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("recurring.sqlite");
    let server = RedisServer::start(Persistence::Always, &[]);
    let file = format!("sqlite:{}", file.display());
    let redis = server.url();
    tokio::join!(runs_once(&file), runs_once(&redis));
}

/// Also those of a later instance, which one of the old release sends on.
#[tokio::test]
async fn occurrences_have_the_version_of_their_message() {
    let rig = rig();
    let old = instance(&rig, recurring("0 12 * * *")).await;
    let tasks = old.submit_service();
    let version = async |id: &str| {
        waits(&tasks, &[id]).await;
        let found = tasks.find("job", id).await.unwrap().unwrap();
        found.headers.get("delayq-version").cloned()
    };
    assert_eq!(version("@2026-11-24T12:00:00Z").await, None);
    rig.clock.advance(minutes(1));
    let second = recurring("30 7-8 * * *").version(2).unwrap();
    let new = instance(&rig, second).await;
    assert_eq!(version("@2026-11-24T07:30:00Z").await.unwrap(), "2");
    new.shutdown(Duration::ZERO).await;
    rig.clock.advance(minutes(29));
    assert_eq!(version("@2026-11-24T08:30:00Z").await.unwrap(), "2");
}

#[tokio::test]
async fn what_cannot_recur_is_refused_at_the_start() {
    let start = async |recurring: [Result<Recurring>; 2]| {
        let rig = Rig::default();
        let worker = rig.worker(|_| async { Ok(()) });
        let builder = rig.builder().worker("job", WorkerOptions::DEFAULT, worker);
        let recurring = recurring.into_iter().map(std::result::Result::unwrap);
        let builder = recurring.fold(builder, DelayQueuePluginBuilder::recurring);
        let Err(StartError::InvalidRecurring { reason, .. }) = builder.start().await else {
            panic!("it has started");
        };
        reason
    };
    let twice = start([Recurring::new("job", "15m"), Recurring::new("job", "20m")]).await;
    assert!(twice.contains("declared twice"), "{twice}");
    let unserved = start([Recurring::new("job", "15m"), Recurring::new("mail", "15m")]).await;
    assert!(unserved.contains("no worker serves"), "{unserved}");
    assert!(Recurring::new("job", "15m").unwrap().name("a@b").is_err());
}

/// A tenant that comes and goes while the plugin runs.
#[tokio::test]
async fn a_recurring_task_comes_changes_and_ends_while_the_plugin_runs() {
    let mut rig = rig();
    let worker = rig.worker(|_| async { Ok(()) });
    let builder = rig
        .builder()
        .worker("remind.*", WorkerOptions::DEFAULT, worker);
    let plugin = builder.start().await.unwrap();
    let tasks = plugin.submit_service();
    let next = async || {
        let mut infos = tasks.recurring().await.unwrap();
        assert!(infos.len() <= 1, "{infos:?}");
        infos.pop().and_then(|info| info.next_id)
    };
    let daily = |every: &str| Recurring::new("remind.acme", every).unwrap();
    plugin.add_recurring(daily("0 9 * * *")).await.unwrap();
    let first = next().await.expect("it waits");
    rig.clock.advance(hours(24));
    assert_eq!(rig.next().await.cx.id(), &first);

    // The occurrence of the former schedule is not left beside it.
    plugin.add_recurring(daily("30 10 * * *")).await.unwrap();
    let scheduled = async || {
        let page = tasks.list("remind.acme", TaskState::Scheduled, None, 9);
        page.await.unwrap().tasks
    };
    let waiting = scheduled().await;
    assert_eq!(waiting.len(), 1, "{waiting:?}");
    assert!(waiting[0].id.as_str().contains("T10:30"), "{waiting:?}");

    assert_eq!(plugin.remove_recurring("remind.acme", "").await, Ok(1));
    tasks
        .purge("remind.acme", TaskState::Scheduled)
        .await
        .unwrap();
    rig.pass(&plugin, hours(72)).await;
    rig.pass(&plugin, minutes(2)).await;
    assert_eq!(next().await, None);
    assert!(scheduled().await.is_empty() && !rig.has_started());

    let unserved = plugin.add_recurring(recurring("15m")).await.unwrap_err();
    assert!(
        unserved.to_string().contains("no worker here serves job"),
        "{unserved}"
    );
}
