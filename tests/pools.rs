//! Pools: slots that several types of a process share, by weight, and limits that change while it
//! runs.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use async_trait::async_trait;
use delayq_core::memory::MemoryStore;
use delayq_core::store::StoreOptions;
use delayq_plugin::{
    Clock, Config, DelayQueueJob, DelayQueuePlugin, DelayQueuePluginBuilder, LatePolicy, OnLate,
    Store, TaskContext, TaskResult, TaskState, TaskSubmitService, TaskType, TaskWorker,
    WorkerOptions, hours, millis, minutes, seconds,
};
use delayq_testing::{Fault, FaultyStore, TestQueue};
use delayq_tests::paused_clock::PausedClock;
use delayq_tests::rig::{Rig, Start, soon, until};
use tokio::sync::{Semaphore, mpsc};

const POOLED: WorkerOptions = WorkerOptions {
    pool: Some("mail"),
    ..WorkerOptions::DEFAULT
};

/// Takes its time for each task, and says which type has started.
struct Mail {
    clock: PausedClock,
    takes: Duration,
    starts: mpsc::UnboundedSender<TaskType>,
}

#[async_trait]
impl TaskWorker for Mail {
    async fn invoke(&self, _message: &str, cx: &TaskContext) -> TaskResult {
        self.starts.send(cx.task_type().clone())?;
        let ends = self.clock.elapsed() + self.takes;
        self.clock.sleep_until(ends).await;
        Ok(())
    }
}

/// A plugin in simulated time, whose store takes its time for each claim.
struct Scene {
    tasks: TaskSubmitService,
    builder: DelayQueuePluginBuilder,
    starts: mpsc::UnboundedReceiver<TaskType>,
    worker: Mail,
    clock: PausedClock,
}

impl Scene {
    fn new(slots: usize, takes: Duration, claim_takes: Duration) -> Self {
        let clock = PausedClock::default();
        let shared: Arc<dyn Clock> = Arc::new(clock.clone());
        let store = MemoryStore::new(Arc::clone(&shared), StoreOptions::default());
        let late = move |call: &str| match call {
            "claim" if !claim_takes.is_zero() => Fault::AnswerLate,
            _ => Fault::None,
        };
        let store = FaultyStore::new(Arc::new(store), late);
        let store = store.with_delay(Arc::clone(&shared), claim_takes);
        let store: Arc<dyn Store> = Arc::new(store);
        let (sender, starts) = mpsc::unbounded_channel();
        let builder = DelayQueuePlugin::builder()
            .without_registered_workers()
            .on_application_runtime()
            .store(Arc::clone(&store))
            .clock(shared)
            .pool("mail", slots);
        Self {
            tasks: TaskSubmitService::new(store),
            builder,
            starts,
            worker: Mail {
                clock: clock.clone(),
                takes,
                starts: sender,
            },
            clock,
        }
    }

    async fn send(&self, task_type: &str, count: usize) {
        let jobs = (0..count).map(|_| DelayQueueJob::raw(task_type, ""));
        for sent in self.tasks.send_all(jobs.collect()).await {
            sent.expect("the task is accepted");
        }
    }

    /// The types of the next starts, each with their number.
    async fn count(starts: &mut mpsc::UnboundedReceiver<TaskType>, count: usize) -> Counts {
        let mut counts = Counts::new();
        for _ in 0..count {
            let next = starts.recv().await.expect("the worker holds a sender");
            *counts.entry(next.to_string()).or_default() += 1;
        }
        counts
    }
}

type Counts = BTreeMap<String, usize>;

fn of(counts: &Counts, task_type: &str) -> usize {
    counts.get(task_type).copied().unwrap_or(0)
}

/// However long a claim takes beside an attempt.
#[tokio::test(start_paused = true)]
async fn of_two_types_with_due_tasks_one_of_weight_8_starts_eight_times_as_often() {
    for (slots, takes, claim_takes) in [
        (8, millis(20), Duration::ZERO),
        (1, millis(20), Duration::ZERO),
        (16, millis(20), millis(2)),
        (16, millis(5), millis(5)),
        (3, millis(2), millis(10)),
    ] {
        let mut scene = Scene::new(slots, takes, claim_takes);
        scene.send("mail.low", 2_500).await;
        scene.send("mail.high", 2_500).await;
        let builder = scene.builder.worker("mail.*", POOLED, scene.worker);
        let plugin = builder.weight("mail.*", 2).weight("mail.high", 16);
        let plugin = plugin.start().await.expect("the plugin starts");
        // The first claim of all finds free slots and no rival.
        Scene::count(&mut scene.starts, 200).await;
        let counts = Scene::count(&mut scene.starts, 1_800).await;
        let high = of(&counts, "mail.high");
        assert!(
            (1_582..=1_618).contains(&high),
            "{high} of 1800, {slots} slots, {takes:?}, {claim_takes:?}"
        );
        plugin.shutdown(Duration::ZERO).await;
    }
}

/// Each of 500 tenants gets as much as the one with the backlog, and who comes late waits for his
/// turn only.
#[tokio::test(start_paused = true)]
async fn five_hundred_types_share_evenly_with_one_that_has_a_huge_backlog() {
    const EACH: usize = 4;
    let mut scene = Scene::new(16, millis(20), millis(1));
    scene.send("mail.huge", 8_000).await;
    for tenant in 0..499 {
        scene.send(&format!("mail.{tenant}"), EACH).await;
    }
    let vip = Mail {
        clock: scene.clock.clone(),
        takes: scene.worker.takes,
        starts: scene.worker.starts.clone(),
    };
    let weighty = WorkerOptions {
        weight: 50,
        ..POOLED
    };
    let plugin = scene.builder.worker("mail.*", POOLED, scene.worker);
    let plugin = plugin.worker("mail.vip", weighty, vip).start().await;
    let plugin = plugin.expect("the plugin starts");
    for _ in 0..EACH {
        let mut round = Scene::count(&mut scene.starts, 500).await;
        assert!(round.len() >= 480, "{} of 500 in a round", round.len());
        let huge = round.remove("mail.huge");
        assert!(matches!(huge, Some(1 | 2)), "{huge:?}");
        // The first claims of all find free slots and no rival.
        assert!(round.values().all(|count| *count <= EACH), "{round:?}");
    }
    // All slots are taken when it is sent, and it is next.
    let urgent = DelayQueueJob::raw("mail.vip", "");
    scene
        .tasks
        .send(urgent)
        .await
        .expect("the task is accepted");
    let next = Scene::count(&mut scene.starts, 40).await;
    assert_eq!(of(&next, "mail.vip"), 1, "{next:?}");
    // Then the backlog has all slots: what the others do not need is nobody's.
    Scene::count(&mut scene.starts, 100).await;
    let from = scene.clock.elapsed();
    let alone = Scene::count(&mut scene.starts, 1_600).await;
    let took = scene.clock.elapsed().saturating_sub(from);
    assert_eq!(of(&alone, "mail.huge"), 1_600);
    assert!(
        took < seconds(2) * 12 / 10,
        "1600 of 20 ms in 16 slots: {took:?}"
    );
    plugin.shutdown(Duration::ZERO).await;
}

/// A plugin whose workers wait for the gate.
struct Gated {
    rig: Rig,
    gate: Arc<Semaphore>,
    plugin: DelayQueuePlugin,
    tasks: TaskSubmitService,
}

impl Gated {
    async fn start(options: WorkerOptions) -> Self {
        let (rig, gate) = (Rig::default(), Arc::new(Semaphore::new(0)));
        let open = Arc::clone(&gate);
        let worker = rig.worker(move |_: Start| {
            let open = Arc::clone(&open);
            async move {
                open.acquire().await?.forget();
                Ok(())
            }
        });
        let builder = rig.builder().worker("mail.*", options, worker);
        let plugin = builder.pool("mail", 2).start().await;
        let plugin = plugin.expect("the plugin starts");
        Self {
            tasks: plugin.submit_service(),
            rig,
            gate,
            plugin,
        }
    }

    async fn send(&self, task_type: &str, count: usize) {
        for _ in 0..count {
            let sent = self.tasks.send(DelayQueueJob::raw(task_type, "")).await;
            sent.expect("the task is accepted");
        }
    }

    /// So many start, and no more of them. All handlers have looked since, but for those that wait
    /// for a slot.
    async fn starts(&mut self, count: usize) {
        for _ in 0..count {
            self.rig.next().await;
        }
        self.rig.clock.advance(seconds(1));
        for _ in 0..50 {
            tokio::task::yield_now().await;
        }
        assert!(!self.rig.has_started(), "one more than {count}");
    }

    async fn end(&self, task_type: &str, left: u64) {
        until("the ends", async || {
            let stats = self.tasks.stats(task_type).await;
            let stats = stats.expect("the store answers");
            (stats.running == left).then_some(())
        })
        .await;
    }
}

#[tokio::test]
async fn the_slots_of_a_pool_change_while_it_runs() {
    let mut scene = Gated::start(POOLED).await;
    scene.send("mail.a", 20).await;
    scene.starts(2).await;
    scene.plugin.set_pool("mail", 5).expect("it is declared");
    scene.starts(3).await;
    // Smaller than what runs: nothing starts until enough has ended.
    scene.plugin.set_pool("mail", 2).expect("it is declared");
    scene.gate.add_permits(3);
    scene.end("mail.a", 2).await;
    scene.starts(0).await;
    scene.gate.add_permits(1);
    scene.starts(1).await;
    for refused in [
        scene.plugin.set_pool("mail", 0),
        scene.plugin.set_pool("post", 1),
    ] {
        let refused = refused.expect_err("it cannot be").to_string();
        assert!(refused.contains("pool"), "{refused}");
    }
    scene.gate.add_permits(20);
    soon("the shutdown", scene.plugin.shutdown(seconds(5))).await;
}

#[tokio::test]
async fn the_concurrency_of_a_type_changes_while_it_runs_and_that_of_types_to_come() {
    let options = WorkerOptions {
        concurrency: 3,
        ..POOLED
    };
    let mut scene = Gated::start(options).await;
    scene.plugin.set_pool("mail", 100).expect("it is declared");
    assert_eq!(scene.plugin.set_concurrency("mail.*", 3), Ok(0));
    scene.send("mail.a", 20).await;
    scene.starts(3).await;
    assert_eq!(scene.plugin.set_concurrency("mail.a", 4), Ok(1));
    scene.starts(1).await;
    assert_eq!(scene.plugin.set_concurrency("mail.*", 2), Ok(1));
    scene.gate.add_permits(2);
    scene.end("mail.a", 2).await;
    scene.starts(0).await;
    scene.gate.add_permits(1);
    scene.starts(1).await;
    scene.send("mail.b", 20).await;
    scene.starts(2).await;
    // A reload ends all of that.
    let config = Config::parse("").expect("a configuration");
    let reloaded = scene.plugin.reload(config).expect("it fits");
    assert_eq!(reloaded.applied.len(), 2, "{:?}", reloaded.applied);
    scene.starts(2).await;
    scene.send("mail.c", 20).await;
    scene.starts(3).await;
    for refused in [
        scene.plugin.set_concurrency("mail.*", 0),
        scene.plugin.set_concurrency("sms.*", 1),
        scene.plugin.set_concurrency("*.mail", 1),
    ] {
        assert!(refused.is_err(), "{refused:?}");
    }
    scene.gate.add_permits(40);
    soon("the shutdown", scene.plugin.shutdown(seconds(5))).await;
}

/// Sends the second mail within the first one.
#[derive(Clone, Default)]
struct Sender(Arc<OnceLock<TaskSubmitService>>);

#[async_trait]
impl TaskWorker for Sender {
    async fn invoke(&self, _message: &str, cx: &TaskContext) -> TaskResult {
        let tasks = self.0.get().expect("set before the first send");
        if cx.task_type().as_str() == "mail.first" {
            tasks.send(DelayQueueJob::raw("mail.second", "")).await?;
        }
        Ok(())
    }
}

#[tokio::test]
async fn a_pool_keeps_no_worker_waiting_for_the_task_that_it_sends_inline() {
    let sender = Sender::default();
    let worker = sender.clone();
    let queue = TestQueue::inline(|builder| {
        let builder = builder.without_registered_workers().pool("mail", 1);
        builder.worker("mail.*", POOLED, worker)
    });
    let queue = queue.await.expect("the queue starts");
    assert!(sender.0.set(queue.tasks().clone()).is_ok());
    let sent = soon("both", queue.send(DelayQueueJob::raw("mail.first", ""))).await;
    sent.expect("both have run");
}

/// Once: what is late again after that is run.
#[tokio::test]
async fn overdue_tasks_are_spread_over_a_time_once() {
    let mut rig = Rig::default();
    let late = LatePolicy {
        action: OnLate::Spread(hours(2)),
        after: minutes(10),
    };
    let options = WorkerOptions {
        late,
        ..WorkerOptions::DEFAULT
    };
    let plugin = rig.start(options, |_| async { Ok(()) }).await;
    let tasks = plugin.submit_service();
    tasks.pause("job", None).await.expect("it is paused");
    for n in 0..80 {
        let job = DelayQueueJob::raw("job", "");
        let job = match n % 4 {
            0 => job.expires_after(minutes(15)),
            _ => job,
        };
        tasks.send(job).await.expect("the task is accepted");
    }
    // A claim that was on its way reads the clock from before, and no task is late by that.
    rig.pass(&plugin, minutes(10) + seconds(1)).await;
    tasks.resume("job").await.expect("it goes on");
    let left = async || {
        let stats = tasks.stats("job").await.expect("the store answers");
        (stats.running == 0 && stats.due == 0).then_some(stats.scheduled)
    };
    let first = until("all are spread", left).await;
    assert!(first > 70, "{first} of 80 wait");
    let page = tasks.list("job", TaskState::Scheduled, None, 100).await;
    for task in page.expect("the store answers").tasks {
        let in_time = task.expires_at.is_none_or(|ends| task.at < ends);
        assert!(in_time && task.attempt == 0, "{task:?}");
    }
    rig.pass(&plugin, hours(1)).await;
    let half = until("those due by now have ended", left).await;
    assert!(
        (12..=48).contains(&half),
        "{half} of 60 wait for the second half"
    );
    tasks.pause("job", None).await.expect("it is paused");
    rig.pass(&plugin, hours(3)).await;
    tasks.resume("job").await.expect("it goes on");
    for _ in 0..60 {
        rig.next().await;
    }
    assert_eq!(until("the end", left).await, 0);
    plugin.shutdown(Duration::ZERO).await;
}
