//! A sharded type in a plugin: a loop for each bucket, one limit of workers, and resizes. On memory
//! stores, in virtual time.

#![allow(
    clippy::unwrap_used,
    reason = "what a test must not do in silence, it does by panicking"
)]

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use delayq_core::{Bucket, Clock, Lock};
use delayq_plugin::{
    DelayQueuePlugin, Delivery, Error, FleetLimits, StartError, Store, TaskId, TaskState,
    TaskSubmitService, TaskType, WorkerOptions, millis, seconds,
};
use delayq_testing::{Fault, FaultyStore, Observed};
use delayq_tests::rig::{Rig, info, reaches, send, soon, until};
use delayq_tests::sharded_memory::ShardedMemory;
use tokio::sync::{Barrier, Semaphore};

const SHARDS: usize = 4;

fn job() -> TaskType {
    TaskType::new("job").unwrap()
}

/// A sharded store of which one bucket hangs on request.
struct Scene {
    rig: Rig,
    sharded: Arc<ShardedMemory>,
    tasks: TaskSubmitService,
    is_silent: Arc<AtomicBool>,
    /// Ids of the bucket that can be silenced.
    silent: Vec<String>,
    /// Ids of the others.
    healthy: Vec<String>,
}

impl Scene {
    /// Calls of `operation` to the silent bucket fail after `delay`, as in doubt.
    async fn new(operation: &'static str, delay: Duration) -> Self {
        let mut rig = Rig::default();
        let clock = Arc::new(rig.clock.clone());
        let sharded = Arc::new(ShardedMemory::new(clock.clone(), SHARDS));
        let mut ids = BTreeMap::<Bucket, Vec<String>>::new();
        for n in 0..40 {
            let id = TaskId::new(n.to_string()).unwrap();
            let bucket = sharded.bucket_of(&job(), &id).await.unwrap();
            ids.entry(bucket).or_default().push(id.to_string());
        }
        let (bucket, silent) = ids.pop_first().unwrap();
        let healthy = ids.into_values().flatten().collect();
        let is_silent = Arc::new(AtomicBool::new(false));
        let hangs = Arc::clone(&is_silent);
        let plan = move |called: &Bucket, name: &'static str| {
            let is_it = *called == bucket && (name == operation || operation.is_empty());
            if is_it && hangs.load(Ordering::Relaxed) {
                Fault::Hang
            } else {
                Fault::None
            }
        };
        let faulty = FaultyStore::new(sharded.clone(), |_| Fault::None);
        rig.store = Arc::new(faulty.with_bucket_plan(plan).with_delay(clock, delay));
        Self {
            tasks: TaskSubmitService::new(sharded.clone()),
            rig,
            sharded,
            is_silent,
            silent,
            healthy,
        }
    }

    fn fall_silent(&self, is_silent: bool) {
        self.is_silent.store(is_silent, Ordering::Relaxed);
    }

    async fn send_all(&self) {
        for id in self.silent.iter().chain(&self.healthy) {
            send(&self.tasks, id, Duration::ZERO).await;
        }
    }

    /// Awaits the starts of these tasks, and of no others.
    async fn start(&mut self, ids: &[String]) {
        let mut expected = ids.to_vec();
        let mut started = Vec::new();
        for _ in ids {
            started.push(self.rig.next().await.message);
        }
        started.sort_unstable();
        expected.sort_unstable();
        assert_eq!(started, expected);
    }
}

/// No time passes while the other buckets are served: none waits for the silent one.
#[tokio::test]
async fn a_silent_bucket_stalls_its_own_loop_alone() {
    let mut scene = Scene::new("", seconds(5)).await;
    scene.fall_silent(true);
    scene.send_all().await;
    // With fewer slots than tasks: a bucket that hangs keeps none of them.
    let options = WorkerOptions {
        concurrency: 5,
        ..WorkerOptions::DEFAULT
    };
    let _plugin = scene.rig.start(options, |_| async { Ok(()) }).await;
    let healthy = scene.healthy.clone();
    scene.start(&healthy).await;
    for id in &healthy {
        reaches(&scene.tasks, id, TaskState::Done).await;
    }
    assert!(!scene.rig.has_started());
    scene.fall_silent(false);
    let silent = scene.silent.clone();
    until("the first start in the bucket that is back", || async {
        scene.rig.clock.advance(millis(100));
        scene.rig.has_started().then_some(())
    })
    .await;
    scene.start(&silent).await;
}

/// Found in review, when one call served all shards: an extension waited for the silent one.
#[tokio::test]
async fn locks_of_other_buckets_are_extended_while_one_is_silent() {
    let mut scene = Scene::new("extend", seconds(15)).await;
    let gate = Arc::new(Semaphore::new(0));
    let script = {
        let gate = Arc::clone(&gate);
        move |_| {
            let gate = Arc::clone(&gate);
            async move {
                gate.acquire().await.unwrap().forget();
                Ok(())
            }
        }
    };
    let _plugin = scene.rig.start(WorkerOptions::DEFAULT, script).await;
    let (silent, healthy) = (scene.silent[0].clone(), scene.healthy[0].clone());
    let mut contexts = BTreeMap::new();
    for id in [&silent, &healthy] {
        send(&scene.tasks, id, Duration::ZERO).await;
        let start = scene.rig.next().await;
        contexts.insert(start.message, start.cx);
    }
    scene.fall_silent(true);
    for _ in 0..6 {
        let before = info(&scene.tasks, &healthy).await.at;
        scene.rig.clock.advance(seconds(10));
        until("an extension", || async {
            (info(&scene.tasks, &healthy).await.at > before).then_some(())
        })
        .await;
    }
    assert!(!contexts[&healthy].is_cancelled());
    let told = contexts[&silent].cancelled();
    soon("the notice to the worker whose lock runs out", told).await;
    scene.fall_silent(false);
    gate.add_permits(2);
    reaches(&scene.tasks, &healthy, TaskState::Done).await;
}

/// Found in review, when one call served all shards: they waited for those in doubt, and a shutdown
/// lost them.
#[tokio::test]
async fn at_most_once_tasks_start_while_those_of_another_bucket_are_in_doubt() {
    let mut scene = Scene::new("settle", seconds(5)).await;
    scene.fall_silent(true);
    for id in [&scene.silent[0], &scene.healthy[0]] {
        send(&scene.tasks, id, Duration::ZERO).await;
    }
    let once = WorkerOptions {
        delivery: Delivery::AtMostOnce,
        ..WorkerOptions::DEFAULT
    };
    let plugin = scene.rig.start(once, |_| async { Ok(()) }).await;
    assert_eq!(scene.rig.next().await.message, scene.healthy[0]);
    let time = until("the end of the shutdown's grace", || async {
        scene.rig.clock.advance(millis(100));
        (scene.rig.clock.elapsed() > seconds(30)).then_some(())
    });
    soon("the shutdown", async {
        tokio::join!(plugin.shutdown(seconds(20)), time)
    })
    .await;
    assert!(!scene.rig.has_started(), "the task in doubt never starts");
}

#[tokio::test]
async fn the_buckets_of_a_type_share_one_limit_of_workers() {
    const CONCURRENCY: usize = 5;
    let scene = Scene::new("", Duration::ZERO).await;
    let (inside, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    // Opens for as many as may run at once: it proves that they do.
    let barrier = Arc::new(Barrier::new(CONCURRENCY));
    let script = {
        let (inside, most) = (Arc::clone(&inside), Arc::clone(&most));
        move |_| {
            let (inside, most) = (Arc::clone(&inside), Arc::clone(&most));
            let barrier = Arc::clone(&barrier);
            async move {
                let now = inside.fetch_add(1, Ordering::SeqCst) + 1;
                most.fetch_max(now, Ordering::SeqCst);
                barrier.wait().await;
                inside.fetch_sub(1, Ordering::SeqCst);
                Ok(())
            }
        }
    };
    scene.send_all().await;
    let options = WorkerOptions {
        concurrency: CONCURRENCY,
        ..WorkerOptions::DEFAULT
    };
    let _plugin = scene.rig.start(options, script).await;
    for id in scene.silent.iter().chain(&scene.healthy) {
        reaches(&scene.tasks, id, TaskState::Done).await;
    }
    assert_eq!(most.load(Ordering::SeqCst), CONCURRENCY);
}

/// Where locks were claimed, by fence.
type Places = Arc<Mutex<BTreeMap<u64, Vec<Bucket>>>>;

/// Locks that ended, each with its bucket.
type Settled = Arc<Mutex<Vec<(Lock, Bucket)>>>;

/// Notes the bucket of each claim and settlement by the fence and the task.
fn witness(scene: &mut Scene) -> (Places, Settled) {
    let (claims, ends) = (Places::default(), Settled::default());
    let (claimed_in, settled_in) = (Arc::clone(&claims), Arc::clone(&ends));
    let faulty = FaultyStore::new(scene.sharded.clone(), |_| Fault::None);
    scene.rig.store = Arc::new(faulty.with_witness(move |observed| match observed {
        Observed::Claim { bucket, claimed } => {
            for task in &claimed.tasks {
                let mut claims = claimed_in.lock().unwrap();
                claims
                    .entry(task.lock.fence)
                    .or_default()
                    .push(bucket.clone());
            }
        }
        Observed::Settle {
            bucket,
            settlements,
            ..
        } => {
            for settlement in settlements {
                let place = (settlement.lock.clone(), bucket.clone());
                settled_in.lock().unwrap().push(place);
            }
        }
        _ => {}
    }));
    (claims, ends)
}

async fn buckets_of(plugin: &DelayQueuePlugin) -> Vec<Bucket> {
    let handlers = plugin.health().await.handlers;
    let mut buckets: Vec<_> = handlers.into_iter().map(|handler| handler.bucket).collect();
    buckets.sort_unstable();
    buckets
}

#[tokio::test]
async fn after_a_resize_old_locks_are_settled_in_old_buckets_and_new_loops_serve_the_new_ones() {
    let mut scene = Scene::new("", Duration::ZERO).await;
    let (claims, ends) = witness(&mut scene);
    let gate = Arc::new(Semaphore::new(0));
    let script = {
        let gate = Arc::clone(&gate);
        move |_| {
            let gate = Arc::clone(&gate);
            async move {
                gate.acquire().await.unwrap().forget();
                Ok(())
            }
        }
    };
    let plugin = scene.rig.start(WorkerOptions::DEFAULT, script).await;
    scene.send_all().await;
    let all: Vec<String> = scene.silent.iter().chain(&scene.healthy).cloned().collect();
    scene.start(&all).await;
    let old = scene.sharded.buckets(&job()).await.unwrap();
    assert_eq!(buckets_of(&plugin).await, old);
    scene.sharded.resize(SHARDS + 2);
    // A wake-up names a bucket that no loop serves yet; buckets are listed once a poll interval.
    send(&scene.tasks, "new", Duration::ZERO).await;
    until("the start in a new bucket", || async {
        scene.rig.clock.advance(millis(100));
        scene.rig.has_started().then_some(())
    })
    .await;
    assert_eq!(scene.rig.next().await.message, "new");
    gate.add_permits(all.len() + 1);
    for id in &all {
        reaches(&scene.tasks, id, TaskState::Done).await;
    }
    for (lock, bucket) in ends.lock().unwrap().iter() {
        let claimed_in = &claims.lock().unwrap()[&lock.fence];
        assert!(
            claimed_in.contains(bucket),
            "{lock:?} was settled in {bucket}"
        );
    }
    let new = scene.sharded.buckets(&job()).await.unwrap();
    assert_eq!(new.len(), SHARDS + 2);
    assert!(new.iter().all(|bucket| !old.contains(bucket)));
    until("the end of the old loops", || async {
        scene.rig.clock.advance(millis(100));
        (buckets_of(&plugin).await == new).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_shutdown_gives_back_what_runs_in_every_bucket() {
    let mut scene = Scene::new("", Duration::ZERO).await;
    scene.send_all().await;
    let all: Vec<String> = scene.silent.iter().chain(&scene.healthy).cloned().collect();
    let plugin = scene
        .rig
        .start(WorkerOptions::DEFAULT, |_| std::future::pending())
        .await;
    scene.start(&all).await;
    let time = until("the end of the grace", || async {
        scene.rig.clock.advance(millis(100));
        (scene.rig.clock.elapsed() > seconds(20)).then_some(())
    });
    soon("the shutdown", async {
        tokio::join!(plugin.shutdown(Duration::ZERO), time)
    })
    .await;
    for id in &all {
        let info = reaches(&scene.tasks, id, TaskState::Scheduled).await;
        assert_eq!((info.attempt, info.history.releases), (0, 1), "{id}");
    }
}

#[tokio::test]
async fn fleet_limits_and_shards_exclude_each_other_at_the_start() {
    let scene = Scene::new("", Duration::ZERO).await;
    let limited = WorkerOptions {
        fleet: FleetLimits {
            concurrency: Some(3),
            rate: None,
        },
        ..WorkerOptions::DEFAULT
    };
    let sharded = WorkerOptions {
        shards: Some(2),
        ..limited
    };
    let memory = Rig::default();
    let cases = [
        (&scene.rig, limited, u32::try_from(SHARDS).unwrap()),
        (&memory, sharded, 2),
    ];
    for (rig, options, expected) in cases {
        let worker = rig.worker(|_| async { Ok(()) });
        let started = rig.builder().worker("job", options, worker).start().await;
        let Err(StartError::Store(refusal)) = started else {
            panic!("{started:?}");
        };
        let Error::FleetLimitOnShards { task_type, shards } = &refusal else {
            panic!("{refusal}");
        };
        assert_eq!((task_type.as_str(), *shards), ("job", expected));
        assert!(
            refusal.to_string().contains("remove fleet_concurrency"),
            "{refusal}"
        );
    }
}
