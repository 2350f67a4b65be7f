//! A sharded type of which one node fails: it hangs, or holds damage.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use delayq_core::operate::TypeSettings;
use delayq_core::store::{AttemptEnd, ChangeOutcome, Settlement, StoreOptions, SubmitOutcome};
use delayq_core::{Bucket, Namespace, Operate, Store, When};
use delayq_plugin::{DelayQueuePlugin, TaskContext, TaskResult, TaskWorker, WorkerOptions};
use delayq_redis::RedisStore;
use delayq_tests::cluster_set::{ClusterOptions, ClusterSet};
use delayq_tests::redis_server::Persistence;
use delayq_tests::rig::{soon, until};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::{TYPE, claim_each, id, job, options, request, shard, take, task, task_type};

const LATER: Duration = Duration::from_mins(9);
const TASKS: usize = 30;
/// How long a call waits for the node that hangs: the default.
const CALL_TIMEOUT: Duration = Duration::from_secs(5);
/// More than the answer of a healthy node takes on a busy machine. What waits for the node that
/// hangs takes [`CALL_TIMEOUT`].
const PROMPT: Duration = Duration::from_millis(2_500);

/// A cluster that replaces no node, and one node that hangs on request. It holds some of the tasks,
/// none due, and not the layout.
struct Scene {
    set: ClusterSet,
    node: usize,
    hanging: Vec<String>,
    healthy: Vec<String>,
}

impl Scene {
    async fn new() -> Self {
        let set = cluster().await;
        let store = open(&set, options()).await;
        assert_eq!(options().call_timeout, CALL_TIMEOUT);
        shard(&store, 6).await;
        let jobs = (0..TASKS).map(|n| task(job(&n.to_string()).after(LATER)));
        for accepted in store.submit(jobs.collect()).await {
            assert!(matches!(accepted, Ok(SubmitOutcome::Accepted { .. })));
        }
        let namespace = set.slot_of("{default}").await;
        let whole = set.slot_of(&format!("{{default/{TYPE}}}")).await;
        let needed = [set.node_of(namespace).await, set.node_of(whole).await];
        let node = (0..3).find(|node| !needed.contains(node)).unwrap();
        let keys: Vec<String> = set.ask(node, &["KEYS", "delayq:*:tasks"]).await.unwrap();
        let mut on_node = BTreeSet::new();
        for key in keys {
            let own: Vec<String> = set.ask(node, &["HKEYS", &key]).await.unwrap();
            on_node.extend(own);
        }
        let all = (0..TASKS).map(|n| n.to_string());
        let (hanging, healthy): (Vec<_>, Vec<_>) = all.partition(|id| on_node.contains(id));
        assert!(!hanging.is_empty() && healthy.len() > 5);
        Self {
            set,
            node,
            hanging,
            healthy,
        }
    }

    fn stop(&mut self) {
        self.set.nodes[self.node].stop();
    }

    fn resume(&mut self) {
        self.set.nodes[self.node].resume();
    }
}

async fn cluster() -> ClusterSet {
    ClusterSet::start(ClusterOptions {
        replicas: 0,
        node_timeout_ms: 60_000,
        persistence: Persistence::None,
        ..ClusterOptions::default()
    })
    .await
}

async fn open(set: &ClusterSet, options: StoreOptions) -> Arc<RedisStore> {
    RedisStore::connect(&set.url(), options).await.unwrap()
}

async fn make_due(store: &RedisStore, name: &str) {
    let due = When::After(Duration::ZERO);
    let moved = store.reschedule(&task_type(), &id(name), due).await;
    assert!(
        matches!(moved, Ok(ChangeOutcome::Changed { .. })),
        "{moved:?}"
    );
}

/// The bucket that gives a task that is due, and its attempt. It is put back.
async fn find_bucket(store: &RedisStore, name: &str) -> (Bucket, u32) {
    soon(&format!("the claim of {name}"), async {
        loop {
            for (bucket, claimed) in claim_each(store).await {
                let Ok(claimed) = claimed else { continue };
                let mut tasks = claimed.tasks.into_iter();
                if let Some(task) = tasks.find(|task| task.lock.id == id(name)) {
                    let end = AttemptEnd::Release {
                        after: LATER,
                        succeeded: Vec::new(),
                    };
                    let given_back = vec![Settlement::new(task.lock, end)];
                    store.settle(&bucket, given_back).await.unwrap();
                    return (bucket, task.attempt);
                }
            }
        }
    })
    .await
}

/// A claim that hangs holds up no claim of another bucket; what it took is given back.
#[tokio::test]
async fn a_hanging_node_holds_up_its_own_buckets_alone() {
    let mut scene = Scene::new().await;
    let store = open(&scene.set, options()).await;
    let (hanging, healthy) = (scene.hanging[0].clone(), scene.healthy[0].clone());
    make_due(&store, &hanging).await;
    let (silent, _) = find_bucket(&store, &hanging).await;
    make_due(&store, &healthy).await;
    let (live, _) = find_bucket(&store, &healthy).await;
    make_due(&store, &hanging).await;
    scene.stop();
    let request = request();
    let mut lost = store.claim(&silent, &request);
    for _ in 0..10 {
        make_due(&store, &healthy).await;
        let asked = Instant::now();
        let claimed = tokio::select! {
            biased;
            answered = &mut lost => panic!("a node that hangs has answered {answered:?}"),
            claimed = store.claim(&live, &request) => claimed.unwrap(),
        };
        let wait = asked.elapsed();
        assert!(wait < PROMPT, "{wait:?}");
        for task in claimed.tasks {
            let end = AttemptEnd::Release {
                after: LATER,
                succeeded: Vec::new(),
            };
            let given_back = vec![Settlement::new(task.lock, end)];
            store.settle(&live, given_back).await.unwrap();
        }
    }
    let lost = lost.await.unwrap_err();
    assert!(lost.is_transient(), "{lost}");
    scene.resume();
    let (_, attempt) = find_bucket(&store, &hanging).await;
    assert_eq!(attempt, 1, "what the lost claim took is given back");
}

/// Reports the ids of the tasks that it starts.
struct Reporter(UnboundedSender<String>);

#[async_trait]
impl TaskWorker for Reporter {
    async fn invoke(&self, _message: &str, cx: &TaskContext) -> TaskResult {
        // The test may have ended already.
        let _ = self.0.send(cx.id().to_string());
        Ok(())
    }
}

async fn starts(started: &mut UnboundedReceiver<String>, name: &str) {
    let awaited = async { while started.recv().await.unwrap() != name {} };
    soon(&format!("the start of {name}"), awaited).await;
}

/// One loop a bucket: the tasks of other shards start in time, those of the node when it is back.
#[tokio::test]
async fn a_plugin_goes_on_with_every_shard_but_those_of_a_hanging_node() {
    let mut scene = Scene::new().await;
    let store = open(&scene.set, options()).await;
    let (tell, mut started) = unbounded_channel();
    let plugin = DelayQueuePlugin::builder()
        .without_registered_workers()
        .store(store)
        .worker(TYPE, WorkerOptions::DEFAULT, Reporter(tell))
        .start()
        .await
        .unwrap();
    let other = open(&scene.set, options()).await;
    for name in [&scene.hanging[0], &scene.healthy[0]] {
        make_due(&other, name).await;
        starts(&mut started, name).await;
    }
    if let Some(name) = scene.hanging.get(1) {
        make_due(&other, name).await;
    }
    scene.stop();
    let mut late = Vec::new();
    for name in &scene.healthy[1..] {
        make_due(&other, name).await;
        let due = Instant::now();
        starts(&mut started, name).await;
        late.push(due.elapsed());
    }
    // A machine that stands still for a moment makes one start late.
    late.sort_unstable();
    assert!(late[late.len() - 2] < PROMPT, "{late:?}");
    scene.resume();
    for name in &scene.hanging[1..] {
        // The last one to hang may have started before its node did.
        let is_done = || async {
            let due = When::After(Duration::ZERO);
            let _ = other.reschedule(&task_type(), &id(name), due).await;
            let found = other.find(&task_type(), &id(name)).await.ok()??;
            found.state.is_ended().then_some(())
        };
        until(&format!("the end of {name}"), is_done).await;
    }
    plugin.shutdown(Duration::from_secs(1)).await;
}

/// The old epoch is empty, and the node that holds the layout hangs.
#[tokio::test]
async fn tasks_do_not_wait_for_a_layout_that_cannot_be_changed() {
    let mut set = cluster().await;
    let mut found = None;
    for name in ["a", "b", "c", "d", "e", "f", "g", "h"] {
        let namespace = set.slot_of(&format!("{{{name}}}")).await;
        let whole = set.slot_of(&format!("{{{name}/{TYPE}}}")).await;
        let nodes = (set.node_of(namespace).await, set.node_of(whole).await);
        if nodes.0 != nodes.1 {
            found = Some((name, nodes.0));
        }
    }
    let (name, node) = found.unwrap();
    let options = StoreOptions {
        namespace: Namespace::new(name).unwrap(),
        retention: Duration::ZERO,
        ..options()
    };
    let store = open(&set, options).await;
    let accepted = store.submit(vec![task(job("old"))]).await;
    assert!(matches!(accepted[..], [Ok(SubmitOutcome::Accepted { .. })]));
    let settings = TypeSettings::default().shards(6);
    store.configure_type(&task_type(), &settings).await.unwrap();
    let jobs = (0..TASKS).map(|n| task(job(&n.to_string())));
    store.submit(jobs.collect()).await;
    let buckets = store.buckets(&task_type()).await.unwrap();
    assert_eq!(buckets.len(), 7);
    let on_node = {
        let mut on_node = BTreeSet::new();
        for bucket in &buckets {
            let shard = bucket.shard_name();
            let tag = [format!("{name}/{TYPE}"), format!("{name}/{TYPE}/{shard}")];
            let tag = &tag[usize::from(!shard.is_empty())];
            if set.node_of(set.slot_of(&format!("{{{tag}}}")).await).await == node {
                on_node.insert(bucket.clone());
            }
        }
        on_node
    };
    set.nodes[node].stop();
    // The empty one says so with the second claim at the latest.
    for _ in 0..3 {
        for bucket in buckets.iter().filter(|bucket| !on_node.contains(*bucket)) {
            let asked = Instant::now();
            let claimed = store.claim(bucket, &request()).await.unwrap();
            let wait = asked.elapsed();
            assert!(wait < PROMPT, "{bucket}: {wait:?}");
            let ends = claimed.tasks.into_iter().map(|task| task.lock);
            let ends = ends.map(|lock| Settlement::new(lock, AttemptEnd::Done));
            store.settle(bucket, ends.collect()).await.unwrap();
        }
    }
    set.nodes[node].resume();
    until("the end of the old epoch", || async {
        take(&store).await;
        let layouts = format!("delayq:{{{name}}}:layouts");
        let layout: String = set.ask(node, &["HGET", &layouts, TYPE]).await.ok()?;
        (!layout.contains(" 0:1 ")).then_some(())
    })
    .await;
}
