//! The list of instances, as plugins keep it: under virtual time, on the memory store.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use delayq_core::presence::ANNOUNCE_INTERVAL;
use delayq_plugin::{
    Clock, DelayQueueJob, DelayQueuePlugin, InstanceInfo, Store, TaskState, TaskSubmitService,
    WorkerOptions,
};
use delayq_testing::{Fault, FaultyStore};
use delayq_tests::rig::{Rig, reaches, send, until};

async fn start(rig: &Rig, task_type: &str) -> DelayQueuePlugin {
    let worker = rig.worker(|_| async { Ok(()) });
    let builder = rig.builder();
    let builder = builder.worker(task_type, WorkerOptions::DEFAULT, worker);
    builder.start().await.expect("the plugin starts")
}

/// Awaits a list that fulfils `is_meant`.
async fn listed(
    plugin: &DelayQueuePlugin,
    is_meant: impl Fn(&[InstanceInfo]) -> bool,
) -> Vec<InstanceInfo> {
    until("the list of instances", || async {
        let instances = plugin.instances().await.expect("the store answers");
        is_meant(&instances).then_some(instances)
    })
    .await
}

fn names(instance: &InstanceInfo) -> Vec<String> {
    instance.types.iter().map(ToString::to_string).collect()
}

#[tokio::test]
async fn every_instance_is_listed_from_its_start_to_its_shutdown() {
    let rig = Rig::default();
    let one = start(&rig, "mail.send").await;
    listed(&one, |instances| instances.len() == 1).await;
    let other = start(&rig, "order.cancel").await;
    let found = listed(&one, |instances| instances.len() == 2).await;
    let mine = found.iter().find(|found| found.id == *other.instance_id());
    let mine = mine.unwrap();
    assert_eq!(names(mine), ["order.cancel"]);
    assert_eq!(mine.pid, std::process::id());
    assert!(!mine.host.is_empty() && !mine.version.is_empty());
    other.shutdown(Duration::ZERO).await;
    let found = one.instances().await.unwrap();
    assert_eq!(found.len(), 1, "gone once the shutdown is over");
    assert_eq!(found[0].id, *one.instance_id());
}

#[tokio::test]
async fn an_instance_that_lives_stays_listed_and_one_that_is_gone_does_not() {
    let rig = Rig::default();
    let crashed = Arc::new(AtomicBool::new(false));
    let is_crashed = Arc::clone(&crashed);
    let plan = move |_| {
        if is_crashed.load(Ordering::Relaxed) {
            Fault::NotApplied
        } else {
            Fault::None
        }
    };
    let shaky: Arc<dyn Store> = Arc::new(FaultyStore::new(Arc::clone(&rig.store), plan));
    let worker = rig.worker(|_| async { Ok(()) });
    let builder = rig.builder().store(shaky);
    let builder = builder.worker("job", WorkerOptions::DEFAULT, worker);
    let gone = builder.start().await.unwrap();
    let there = start(&rig, "job").await;
    listed(&there, |instances| instances.len() == 2).await;
    crashed.store(true, Ordering::Relaxed);
    for _ in 0..4 {
        let before = rig.clock.now();
        rig.clock.advance(ANNOUNCE_INTERVAL);
        let id = there.instance_id();
        let is_seen = |found: &InstanceInfo| found.id == *id && found.seen_at > before;
        listed(&there, |instances| instances.iter().any(is_seen)).await;
    }
    let found = there.instances().await.unwrap();
    assert_eq!(
        found.len(),
        1,
        "silent for longer than an instance is listed"
    );
    assert_eq!(found[0].id, *there.instance_id());
    // It has not ended: once the store hears it again, it is listed.
    crashed.store(false, Ordering::Relaxed);
    rig.clock.advance(ANNOUNCE_INTERVAL);
    listed(&there, |instances| instances.len() == 2).await;
    gone.shutdown(Duration::ZERO).await;
    there.shutdown(Duration::ZERO).await;
}

#[tokio::test]
async fn a_type_that_appears_is_told_at_once() {
    let rig = Rig::default();
    let plugin = start(&rig, "report.*").await;
    listed(&plugin, |instances| instances.len() == 1).await;
    let tasks = plugin.submit_service();
    tasks
        .send(DelayQueueJob::raw("report.day", "x"))
        .await
        .unwrap();
    // No time passes.
    let is_told = |instances: &[InstanceInfo]| instances.iter().any(|one| one.type_count == 1);
    let found = listed(&plugin, is_told).await;
    assert_eq!(names(&found[0]), ["report.day"]);
    plugin.shutdown(Duration::ZERO).await;
}

#[tokio::test]
async fn a_store_that_cannot_list_instances_runs_tasks_all_the_same() {
    let mut rig = Rig::default();
    let tries = Arc::new(AtomicU32::new(0));
    let counter = Arc::clone(&tries);
    let plan = move |edge| match edge {
        "announce" | "withdraw" => {
            counter.fetch_add(1, Ordering::Relaxed);
            Fault::ReadOnly
        }
        _ => Fault::None,
    };
    rig.store = Arc::new(FaultyStore::new(Arc::clone(&rig.store), plan));
    let plugin = start(&rig, "job").await;
    let tasks = TaskSubmitService::new(Arc::clone(&rig.store));
    for n in 0..3 {
        send(&tasks, &n.to_string(), Duration::ZERO).await;
        reaches(&tasks, &n.to_string(), TaskState::Done).await;
        rig.pass(&plugin, ANNOUNCE_INTERVAL).await;
    }
    until("more than one try", || async {
        rig.clock.advance(ANNOUNCE_INTERVAL);
        (tries.load(Ordering::Relaxed) > 1).then_some(())
    })
    .await;
    assert_eq!(plugin.instances().await, Ok(Vec::new()));
    assert!(plugin.health().await.is_ok());
    plugin.shutdown(Duration::ZERO).await;
}
