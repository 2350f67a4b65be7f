//! Resizes while tasks are sent, run, cancelled and found.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use delayq_core::store::{BucketState, CancelOutcome, Durability, StoreOptions, SubmitOutcome};
use delayq_core::{Operate, Store, TaskState};
use delayq_redis::RedisStore;
use delayq_tests::cluster_set::{ClusterOptions, ClusterSet};
use delayq_tests::redis_server::{Persistence, RedisServer};
use delayq_tests::rig::until;
use tokio::sync::watch;

use super::{TYPE, id, job, raw, request, run, shard, submit, take, task_type, whole};

const TASKS: usize = 1_200;
const LATER: Duration = Duration::from_mins(9);
/// How long a call of a store may take, as by default.
const CALL_TIMEOUT: Duration = Duration::from_secs(5);
/// How long the test waits for what has to come.
const PATIENCE: Duration = Duration::from_mins(1);
/// Of who has nothing to do: a matter of a few of the other calls.
const PAUSE: Duration = Duration::from_millis(2);

/// Several stores on one server, or one cluster, each with what it knows of the layout.
struct Scene {
    url: String,
    /// How many were sent.
    sent: watch::Sender<usize>,
    /// How many were started.
    begun: watch::Sender<usize>,
    is_over: AtomicBool,
    /// Tasks for later that were accepted and not cancelled.
    waiting: Mutex<BTreeSet<String>>,
    /// How often each task was started.
    started: Mutex<BTreeMap<String, usize>>,
}

impl Scene {
    fn new(url: String) -> Self {
        Self {
            url,
            sent: watch::Sender::new(0),
            begun: watch::Sender::new(0),
            is_over: AtomicBool::new(false),
            waiting: Mutex::default(),
            started: Mutex::default(),
        }
    }

    async fn open(&self) -> Arc<RedisStore> {
        let store = RedisStore::connect(&self.url, Self::options());
        store.await.unwrap()
    }

    fn options() -> StoreOptions {
        StoreOptions {
            durability: Durability::Memory,
            retention: Duration::from_secs(1),
            call_timeout: CALL_TIMEOUT,
            ..StoreOptions::default()
        }
    }

    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }

    /// Sends every second task for later, through two stores at the same time; the others are due
    /// now.
    async fn send(&self) {
        let (one, other) = (self.open().await, self.open().await);
        for n in 0..TASKS {
            let name = format!("{n:04}");
            if n % 2 == 0 {
                let outcome = submit(&one, job(&name)).await;
                assert!(
                    matches!(outcome, Ok(SubmitOutcome::Accepted { .. })),
                    "{outcome:?}"
                );
            } else {
                let job = job(&name).after(LATER);
                let (a, b) = tokio::join!(submit(&one, job.clone()), submit(&other, job));
                let accepted =
                    |outcome: &SubmitOutcome| matches!(outcome, SubmitOutcome::Accepted { .. });
                let outcomes = [a.unwrap(), b.unwrap()];
                assert_eq!(
                    outcomes.iter().filter(|o| accepted(o)).count(),
                    1,
                    "{name}: {outcomes:?}"
                );
                self.waiting.lock().unwrap().insert(name);
            }
            self.sent.send_modify(|sent| *sent += 1);
        }
    }

    async fn work(&self) {
        let store = self.open().await;
        while !self.is_over() {
            let taken = take(&store).await;
            if taken.is_empty() {
                // Nothing is due before the next one is sent.
                tokio::time::sleep(PAUSE).await;
            }
            for name in taken {
                *self.started.lock().unwrap().entry(name).or_default() += 1;
            }
            let begun = self.started.lock().unwrap().len();
            self.begun.send_replace(begun);
        }
    }

    /// Looks for tasks that wait, all the time.
    async fn look(&self) {
        let store = self.open().await;
        while !self.is_over() {
            let names: Vec<String> = self.waiting.lock().unwrap().iter().cloned().collect();
            for name in names.iter().rev().step_by(7).take(50) {
                let found = store.find(&task_type(), &id(name)).await.unwrap();
                let state = found.map(|info| info.state);
                let is_there = state == Some(TaskState::Scheduled);
                let is_cancelled = !self.waiting.lock().unwrap().contains(name);
                assert!(is_there || is_cancelled, "{name}: {state:?}");
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    async fn cancel(&self) {
        let store = self.open().await;
        while !self.is_over() {
            let next = {
                let mut waiting = self.waiting.lock().unwrap();
                let next = waiting.iter().find(|name| name.ends_with('5')).cloned();
                next.and_then(|name| waiting.take(&name))
            };
            if let Some(name) = next {
                let outcome = store.cancel(&task_type(), &id(&name)).await;
                assert_eq!(outcome, Ok(CancelOutcome::Cancelled), "{name}");
            } else {
                tokio::time::sleep(PAUSE).await;
            }
        }
    }

    async fn resize(&self) {
        let mut sent = self.sent.subscribe();
        let half = sent.wait_for(|sent| *sent >= TASKS / 2).await;
        half.expect("the scene lasts");
        shard(&*self.open().await, 9).await;
    }

    /// What is scheduled, page by page.
    async fn scheduled(&self) -> BTreeSet<String> {
        let (store, mut found) = (self.open().await, BTreeSet::new());
        let mut cursor = None;
        loop {
            let state = TaskState::Scheduled;
            let page = store
                .list(&task_type(), state, cursor.as_ref(), 100)
                .await
                .unwrap();
            for task in page.tasks {
                assert!(found.insert(task.id.to_string()), "{} twice", task.id);
            }
            cursor = page.next;
            if cursor.is_none() {
                return found;
            }
        }
    }
}

async fn resize_under_load(url: String) -> Arc<Scene> {
    let scene = Arc::new(Scene::new(url));
    shard(&*scene.open().await, 2).await;
    let run = |scene: &Arc<Scene>, part: usize| {
        let scene = Arc::clone(scene);
        tokio::spawn(async move {
            match part {
                0 | 1 => scene.work().await,
                2 => scene.look().await,
                3 => scene.cancel().await,
                _ => scene.resize().await,
            }
        })
    };
    let parts: Vec<_> = (0..5).map(|part| run(&scene, part)).collect();
    scene.send().await;
    let mut begun = scene.begun.subscribe();
    let all_started = begun.wait_for(|begun| *begun == TASKS / 2);
    let all_started = tokio::time::timeout(PATIENCE, all_started).await;
    all_started.unwrap().expect("the scene lasts");
    scene.is_over.store(true, Ordering::Relaxed);
    for part in parts {
        tokio::time::timeout(PATIENCE, part).await.unwrap().unwrap();
    }
    for (name, starts) in scene.started.lock().unwrap().iter() {
        assert_eq!(*starts, 1, "{name}");
    }
    let waiting = scene.waiting.lock().unwrap().clone();
    assert_eq!(scene.scheduled().await, waiting);
    let store = scene.open().await;
    assert_eq!(store.audit(&task_type(), false).await.unwrap().problems, []);
    // What is left is called off. Once it is forgotten, too, the old shards are dropped by the
    // claims.
    store
        .purge(&task_type(), TaskState::Scheduled)
        .await
        .unwrap();
    scene
}

/// The layout once it is `wanted`.
async fn settles_to(wanted: &str, scene: &Scene, layout: impl AsyncFn() -> String) {
    let store = scene.open().await;
    let settled = async {
        while layout().await != wanted {
            take(&store).await;
        }
    };
    let settled = tokio::time::timeout(PATIENCE, settled).await;
    assert!(settled.is_ok(), "{}", layout().await);
}

/// The scripts are those of the next one, which sends them to the right node as well.
#[cfg_attr(feature = "soak", tokio::test(flavor = "multi_thread"))]
async fn nothing_is_lost_or_doubled_during_a_resize() {
    let server = RedisServer::start(Persistence::None, &[]);
    let scene = resize_under_load(server.url()).await;
    let layout = async || {
        let mut redis = super::raw(&server).await;
        super::run(
            &mut redis,
            &format!("HGET delayq:{{default}}:layouts {TYPE}"),
        )
        .await
    };
    settles_to("1 2:9", &scene, layout).await;
}

async fn layout_of(cluster: &ClusterSet) -> String {
    let key = "delayq:{default}:layouts";
    let home = cluster.node_of(cluster.slot_of(key).await).await;
    cluster.ask(home, &["HGET", key, TYPE]).await.unwrap()
}

/// On which node each shard of the newest epoch lies.
async fn nodes_of_newest(cluster: &ClusterSet, count: usize) -> Vec<usize> {
    let layout = layout_of(cluster).await;
    let mut parts = layout.rsplit(' ').next().unwrap().split(':');
    let epoch = parts.next().unwrap();
    assert_eq!(parts.next(), Some(count.to_string().as_str()));
    let suffixes = parts
        .next()
        .map_or(vec!["0"; count], |list| list.split(',').collect());
    let mut nodes = Vec::new();
    for (number, suffix) in suffixes.into_iter().enumerate() {
        let name = match suffix {
            "0" => format!("{epoch}.{number}"),
            _ => format!("{epoch}.{number}.{suffix}"),
        };
        let meta = format!("delayq:{{default/{TYPE}/{name}}}:meta");
        let node = cluster.node_of(cluster.slot_of(&meta).await).await;
        let split: Option<String> = cluster.ask(node, &["HGET", &meta, "split"]).await.unwrap();
        assert_eq!(split, Some(count.to_string()), "{meta}");
        nodes.push(node);
    }
    nodes
}

/// A cluster of three masters that serves what it can while one of them hangs.
async fn cluster() -> ClusterSet {
    let options = ClusterOptions {
        replicas: 0,
        node_timeout_ms: 60_000,
        extra: ["--cluster-require-full-coverage", "no"]
            .map(str::to_owned)
            .into(),
        ..ClusterOptions::default()
    };
    ClusterSet::start(options).await
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_lost_or_doubled_during_a_resize_on_a_cluster() {
    let cluster = cluster().await;
    let scene = resize_under_load(cluster.url()).await;
    let store = scene.open().await;
    let settled = async {
        while layout_of(&cluster).await.split(' ').count() > 2 {
            take(&store).await;
        }
    };
    tokio::time::timeout(PATIENCE, settled).await.unwrap();
    // Three nodes take three shards each, wherever their names alone would have put them.
    let mut on_node = BTreeMap::new();
    for node in nodes_of_newest(&cluster, 9).await {
        *on_node.entry(node).or_insert(0) += 1;
    }
    assert_eq!(on_node.into_values().collect::<Vec<_>>(), [3, 3, 3]);
}

/// A fail-over may lose a seal and keep the layout: then what is taken after it has to be looked
/// for there, too.
#[tokio::test]
async fn on_a_cluster_that_may_lose_writes_an_empty_epoch_stays_until_claims_have_seen_it() {
    let cluster = cluster().await;
    let scene = Scene::new(cluster.url());
    shard(&*scene.open().await, 3).await;
    let begun = layout_of(&cluster).await;
    assert!(begun.starts_with("1 0:1 1:3"), "{begun}");
}

#[tokio::test]
async fn an_instance_that_never_used_a_type_is_woken_by_its_shards_on_a_cluster() {
    let cluster = cluster().await;
    let scene = Scene::new(cluster.url());
    let (here, there) = (scene.open().await, scene.open().await);
    shard(&*scene.open().await, 6).await;
    let mut wakeups = there.wakeups();
    // The first ones may only tell that there is such a type, and that it is listened to.
    let mut left = 10;
    let heard = async {
        for n in 0.. {
            // Each is the first of its shard.
            let name = n.to_string();
            submit(&here, job(&name).after(LATER)).await.unwrap();
            let _ = here.cancel(&task_type(), &id(&name)).await.unwrap();
            let next =
                async { while wakeups.next().await.unwrap().task_type() != Some(&task_type()) {} };
            let one_try = Duration::from_millis(100);
            if tokio::time::timeout(one_try, next).await.is_ok() {
                left -= 1;
            }
            if left == 0 {
                return;
            }
        }
    };
    tokio::time::timeout(PATIENCE, heard).await.unwrap();
}

/// Found in review: it left `1 1:2 +`, which no release reads, and so ended the type for good.
#[tokio::test]
async fn a_drained_epoch_stays_in_a_layout_that_is_being_opened() {
    let server = RedisServer::start(Persistence::None, &[]);
    let options = StoreOptions {
        retention: Duration::ZERO,
        ..Scene::options()
    };
    let store = RedisStore::connect(&server.url(), options).await.unwrap();
    submit(&store, job("1")).await.unwrap();
    shard(&store, 2).await;
    assert_eq!(take(&store).await.len(), 1);
    // The registry has lost its last change, and another instance restores it from a sealed shard.
    let layouts = "delayq:{default}:layouts";
    let mut redis = raw(&server).await;
    let mut restore = redis::cmd("HSET");
    restore.arg(layouts).arg(TYPE).arg("1 0:1 1:2 +");
    restore.exec_async(&mut redis).await.unwrap();
    let end = until("the end of the opening", || async {
        let claimed = store.claim(&whole(), &request()).await.unwrap();
        assert_eq!(claimed.bucket, BucketState::Drained);
        let mut redis = redis.clone();
        let found: String = run(&mut redis, &format!("HGET {layouts} {TYPE}")).await;
        (found == "1 1:2" || found == "1 1:2 +").then_some(found)
    });
    assert_eq!(end.await, "1 1:2");
    assert_eq!(store.buckets(&task_type()).await.unwrap().len(), 2);
}
