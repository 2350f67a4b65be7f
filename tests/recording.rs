//! Figures, as plugins record them: under virtual time, on the memory store.

#![allow(clippy::unwrap_used, reason = "tests: a panic is a failure")]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use delayq_core::Bucket;
use delayq_core::presence::ANNOUNCE_INTERVAL;
use delayq_core::store::ClaimRequest;
use delayq_plugin::store::{Figures, Spell, Step};
use delayq_plugin::{
    Clock, DelayQueuePlugin, Delivery, TaskError, TaskEventKind, TaskEvents, TaskResult, TaskState,
    TaskSubmitService, TaskType, WorkerOptions,
};
use delayq_testing::{Fault, FaultyStore};
use delayq_tests::rig::{Rig, Start, reaches, send, soon, until};
use delayq_tests::sharded_memory::ShardedMemory;

/// Does what the message says.
async fn obey(start: Start) -> TaskResult {
    match start.message.split('-').next() {
        Some("dead") => Err(TaskError::dead("no such order")),
        Some("retry") if start.cx.attempt() == 1 => Err(TaskError::retry("busy")),
        _ => Ok(()),
    }
}

/// A plugin that has announced itself, and takes up figures with the next announcement.
async fn start(rig: &Rig, options: WorkerOptions) -> DelayQueuePlugin {
    let plugin = rig.start(options, obey).await;
    listed(rig).await;
    plugin
}

async fn listed(rig: &Rig) {
    until("the first announcement", || async {
        let instances = rig.store.instances().await.unwrap();
        (!instances.is_empty()).then_some(())
    })
    .await;
}

fn task_type() -> TaskType {
    TaskType::new("job").unwrap()
}

async fn minutes(rig: &Rig) -> Vec<Spell> {
    let since = rig.clock.now().minus(Duration::from_hours(1));
    let job = task_type();
    let figures = rig.store.figures(&job, Step::Minute, since);
    figures.await.unwrap()
}

fn sum(minutes: &[Spell]) -> Figures {
    let mut sum = Figures::default();
    for minute in minutes {
        sum += &minute.figures;
    }
    sum
}

/// Started, done, failed, dead.
fn counts(figures: &Figures) -> [u64; 4] {
    [figures.started, figures.done, figures.failed, figures.dead]
}

async fn reach(plugin: &DelayQueuePlugin, id: &str, state: TaskState) {
    reaches(&plugin.submit_service(), id, state).await;
}

/// Sends a task, and awaits that it was counted as done or dead.
async fn run(plugin: &DelayQueuePlugin, id: &str) {
    let mut events = plugin.events();
    send(&plugin.submit_service(), id, Duration::ZERO).await;
    soon("its end", ended(&mut events)).await;
}

async fn ended(events: &mut TaskEvents) {
    let is_end = |kind: &TaskEventKind| {
        matches!(
            kind,
            TaskEventKind::Succeeded { .. } | TaskEventKind::Dead { .. }
        )
    };
    while !is_end(&events.next().await.unwrap().kind) {}
}

/// Has the plugin announce itself again, and returns what it announced of the type, as counts.
async fn announced(rig: &Rig, plugin: &DelayQueuePlugin) -> Option<[u64; 4]> {
    let before = rig.clock.now();
    rig.clock.advance(ANNOUNCE_INTERVAL);
    until("an announcement", || async {
        let found = plugin.instances().await.ok()?.pop()?;
        let recent = found.recent?;
        (found.seen_at > before).then(|| recent.of(&task_type()).map(counts))
    })
    .await
}

/// Awaits figures with these counts.
async fn recorded(rig: &Rig, expected: [u64; 4]) -> Vec<Spell> {
    until("the figures", || async {
        let minutes = minutes(rig).await;
        (counts(&sum(&minutes)) == expected).then_some(minutes)
    })
    .await
}

/// A store that counts calls of `add_figures` and lets those fail that `plan` names.
fn faulty(rig: &Rig, plan: impl Fn(usize) -> Fault + Send + Sync + 'static) -> (Rig, Calls) {
    let calls = Calls::default();
    let counter = Arc::clone(&calls.0);
    let plan = move |operation| match operation {
        "add_figures" => plan(counter.fetch_add(1, Ordering::SeqCst)),
        _ => Fault::None,
    };
    let store = FaultyStore::new(Arc::clone(&rig.store), plan);
    let mut faulty = Rig::default();
    faulty.clock = rig.clock.clone();
    faulty.store = Arc::new(store);
    (faulty, calls)
}

#[derive(Clone, Debug, Default)]
struct Calls(Arc<AtomicUsize>);

impl Calls {
    fn count(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

#[tokio::test]
async fn what_handlers_do_is_in_the_figures_and_in_the_announcement() {
    let rig = Rig::default();
    let plugin = start(&rig, WorkerOptions::DEFAULT).await;
    let tasks = &plugin.submit_service();
    let first = Step::Minute.begin(rig.clock.now());
    run(&plugin, "done").await;
    run(&plugin, "dead").await;
    // The next minute, and late.
    send(tasks, "retry-late", Duration::from_secs(65)).await;
    rig.pass(&plugin, Duration::from_secs(75)).await;
    reach(&plugin, "retry-late", TaskState::Scheduled).await;
    let mut events = plugin.events();
    rig.pass(&plugin, Duration::from_secs(2)).await;
    soon("its end", ended(&mut events)).await;
    assert_eq!(announced(&rig, &plugin).await, Some([4, 2, 2, 1]));
    // Figures go with every second announcement.
    rig.clock.advance(ANNOUNCE_INTERVAL);
    let minutes = recorded(&rig, [4, 2, 2, 1]).await;
    let found: Vec<_> = minutes
        .iter()
        .map(|minute| (minute.at, counts(&minute.figures)))
        .collect();
    let second = first.plus(Duration::from_mins(1));
    assert_eq!(found, [(first, [2, 1, 1, 1]), (second, [2, 1, 1, 0])]);
    let latest = minutes[1].figures.lateness.quantile(1.0);
    assert!(latest.unwrap() > Duration::from_secs(8), "{latest:?}");
    // The figures stay, and the announcement forgets.
    let mut after = announced(&rig, &plugin).await;
    while after == Some([4, 2, 2, 1]) {
        after = announced(&rig, &plugin).await;
    }
    assert_eq!(after, Some([2, 1, 1, 0]), "the first minute is over");
    assert_eq!(counts(&sum(&self::minutes(&rig).await)), [4, 2, 2, 1]);
    plugin.shutdown(Duration::ZERO).await;
}

#[tokio::test]
async fn a_shutdown_records_what_is_not_recorded_yet() {
    let rig = Rig::default();
    let plugin = start(&rig, WorkerOptions::DEFAULT).await;
    send(&plugin.submit_service(), "done", Duration::ZERO).await;
    reach(&plugin, "done", TaskState::Done).await;
    assert_eq!(minutes(&rig).await, []);
    plugin.shutdown(Duration::ZERO).await;
    assert_eq!(counts(&sum(&minutes(&rig).await)), [1, 1, 0, 0]);
}

#[tokio::test]
async fn what_workers_finish_during_the_shutdown_is_recorded() {
    let rig = Rig::default();
    let (finish, finished) = tokio::sync::watch::channel(false);
    let script = move |_| {
        let mut finished = finished.clone();
        async move {
            let _ = finished.wait_for(|finished| *finished).await;
            Ok(())
        }
    };
    let plugin = rig.start(WorkerOptions::DEFAULT, script).await;
    listed(&rig).await;
    send(&plugin.submit_service(), "1", Duration::ZERO).await;
    reach(&plugin, "1", TaskState::Running).await;
    let (shutdown, ()) = tokio::join!(plugin.shutdown(Duration::from_secs(30)), async {
        until("the shutdown", || async {
            plugin.instances().await.unwrap().is_empty().then_some(())
        })
        .await;
        finish.send_replace(true);
    });
    let () = shutdown;
    assert_eq!(counts(&sum(&minutes(&rig).await)), [1, 1, 0, 0]);
}

#[tokio::test]
async fn an_at_most_once_task_is_done_or_failed_and_never_both() {
    let rig = Rig::default();
    let options = WorkerOptions {
        delivery: Delivery::AtMostOnce,
        ..WorkerOptions::DEFAULT
    };
    let plugin = start(&rig, options).await;
    for id in ["done", "dead"] {
        send(&plugin.submit_service(), id, Duration::ZERO).await;
        reach(&plugin, id, TaskState::Done).await;
    }
    plugin.shutdown(Duration::from_secs(9)).await;
    assert_eq!(counts(&sum(&minutes(&rig).await)), [2, 1, 1, 0]);
}

#[tokio::test]
async fn poison_is_dead_and_did_not_start() {
    let rig = Rig::default();
    let tasks = TaskSubmitService::new(Arc::clone(&rig.store));
    send(&tasks, "a", Duration::ZERO).await;
    let bucket = Bucket::whole(task_type());
    for _ in 0..3 {
        let lock_for = Duration::from_secs(30);
        let request = ClaimRequest::new(1, lock_for, rig.clock.now());
        let claimed = rig.store.claim(&bucket, &request).await.unwrap();
        let lock = &claimed.tasks[0].lock;
        let extended = rig.store.extend_alone(&bucket, lock, lock_for).await;
        extended.unwrap();
        rig.clock.advance(lock_for);
    }
    let plugin = start(&rig, WorkerOptions::DEFAULT).await;
    reach(&plugin, "a", TaskState::Dead).await;
    plugin.shutdown(Duration::ZERO).await;
    assert_eq!(counts(&sum(&minutes(&rig).await)), [0, 0, 0, 1]);
}

#[tokio::test]
async fn an_idle_process_makes_no_call() {
    let (rig, calls) = faulty(&Rig::default(), |_| Fault::None);
    let plugin = start(&rig, WorkerOptions::DEFAULT).await;
    for _ in 0..3 {
        assert_eq!(announced(&rig, &plugin).await, None);
    }
    plugin.shutdown(Duration::ZERO).await;
    assert_eq!(calls.count(), 0);
}

#[tokio::test]
async fn figures_in_doubt_are_not_added_again_and_those_refused_are() {
    for fault in [Fault::AnswerLost, Fault::NotApplied, Fault::ReadOnly] {
        let (rig, calls) = faulty(&Rig::default(), move |nth| match nth {
            0 => fault,
            _ => Fault::None,
        });
        let plugin = start(&rig, WorkerOptions::DEFAULT).await;
        run(&plugin, "1").await;
        for _ in 0..3 {
            assert_eq!(announced(&rig, &plugin).await, Some([1, 1, 0, 0]));
        }
        recorded(&rig, [1, 1, 0, 0]).await;
        plugin.shutdown(Duration::ZERO).await;
        assert_eq!(counts(&sum(&minutes(&rig).await)), [1, 1, 0, 0]);
        let repeats = usize::from(fault != Fault::AnswerLost);
        assert_eq!(calls.count(), 1 + repeats, "{fault:?}");
    }
}

#[tokio::test]
async fn a_store_that_is_away_gets_the_last_ten_minutes() {
    let (rig, calls) = faulty(&Rig::default(), |nth| match nth {
        0..45 => Fault::NotApplied,
        _ => Fault::None,
    });
    let plugin = start(&rig, WorkerOptions::DEFAULT).await;
    let mut sent = 0;
    while calls.count() < 46 {
        let id = sent.to_string();
        run(&plugin, &id).await;
        sent += 1;
        announced(&rig, &plugin).await;
    }
    let kept = until("the figures", || async {
        let minutes = minutes(&rig).await;
        (!minutes.is_empty()).then_some(minutes)
    })
    .await;
    assert_eq!(kept.len(), 10, "{sent} were sent");
    plugin.shutdown(Duration::ZERO).await;
}

#[tokio::test]
async fn a_store_that_keeps_no_figures_is_asked_once() {
    let mut inner = Rig::default();
    inner.store = Arc::new(ShardedMemory::new(Arc::new(inner.clock.clone()), 1));
    let (rig, calls) = faulty(&inner, |_| Fault::None);
    let plugin = rig.start(WorkerOptions::DEFAULT, obey).await;
    for id in ["1", "2", "3"] {
        run(&plugin, id).await;
        rig.pass(&plugin, ANNOUNCE_INTERVAL).await;
        until("the first call", || async {
            (calls.count() > 0).then_some(())
        })
        .await;
    }
    plugin.shutdown(Duration::ZERO).await;
    assert_eq!(calls.count(), 1);
}
