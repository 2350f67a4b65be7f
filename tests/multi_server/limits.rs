//! Fleet limits in a cluster.

use delayq_plugin::{Clock, SystemClock, TaskSubmitService, seconds};
use delayq_tests::cluster_set::{ClusterOptions, ClusterSet};
use delayq_tests::instance::plan::{Chore, Plan, Served};
use delayq_tests::instance::scene::Scene;
use delayq_tests::rig::until;

const INSTANCE: &str = env!("CARGO_BIN_EXE_instance");
const LIMIT: u32 = 5;
const TASKS: usize = 200;

async fn send(service: &TaskSubmitService) {
    let job = |n: usize| Chore::Work(100).job("job").id(n.to_string());
    let results = service.send_all((0..TASKS).map(job).collect()).await;
    assert!(results.iter().all(Result::is_ok), "{results:?}");
}

/// Every claim was confirmed by the replica that takes over.
#[tokio::test]
async fn a_limit_holds_while_the_node_of_its_type_is_replaced() {
    let mut set = ClusterSet::start(ClusterOptions {
        extra: vec!["--min-replicas-to-write".to_owned(), "1".to_owned()],
        ..ClusterOptions::default()
    })
    .await;
    let mut scene = Scene::on(INSTANCE, format!("{}?durability=replicated", set.url()));
    let service = scene.service().await;
    let mut instances = Vec::new();
    for _ in 0..2 {
        let served = Served {
            fleet_concurrency: Some(LIMIT),
            lock_ms: 20_000,
            ..Served::new("job")
        };
        let plan = Plan {
            served: vec![served],
            ..scene.plan([])
        };
        instances.push(scene.start(&plan).await);
    }
    send(&service).await;
    instances[0].started(TASKS / 8).await;
    let slot = set.slot_of("{default/job}").await;
    let master = set.node_of(slot).await;
    let from = SystemClock.now();
    set.nodes[master].kill();
    set.failed_over(master, slot).await;
    // Without a replica the new one takes no writes.
    set.nodes[master].restart();
    until("a start after the fail-over", || async {
        let starts = scene.history();
        let last = starts.starts().map(|start| start.at).max()?;
        (last > SystemClock.now().minus(seconds(1)).as_millis()).then_some(())
    })
    .await;
    println!(
        "it took {:?}",
        scene.between(from.as_millis(), SystemClock.now().as_millis())
    );
    scene.drained(&service).await;
    let history = scene.history();
    let done: std::collections::BTreeSet<&String> = history.attempts.keys().collect();
    assert_eq!(done.len(), TASKS);
    let most = history.most_at_a_time();
    assert_eq!(most, i64::from(LIMIT), "reached, and not exceeded");
}
