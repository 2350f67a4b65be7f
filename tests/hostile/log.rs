//! What the log says of a store that fails in one way and works in others.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use delayq_core::Bucket;
use delayq_plugin::{DelayQueueJob, TaskId, TaskType, WorkerOptions, millis, seconds};
use delayq_testing::{Fault, FaultyStore};
use delayq_tests::rig::{Rig, until};
use delayq_tests::sharded_memory::ShardedMemory;

use super::{LOG, listen_to_log, logged};

/// How many lines of the log have both words.
fn count(type_name: &str, what: &str) -> usize {
    let text = String::from_utf8_lossy(&LOG.lock().unwrap()).into_owned();
    let told = text.lines();
    told.filter(|line| line.contains(type_name) && line.contains(what))
        .count()
}

#[tokio::test]
async fn a_call_that_fails_beside_others_that_work_is_told_when_it_begins_and_when_it_is_over() {
    listen_to_log();
    let mut rig = Rig::default();
    let is_broken = Arc::new(AtomicBool::new(true));
    let plan = {
        let is_broken = Arc::clone(&is_broken);
        move |edge| match edge {
            "settle" if is_broken.load(Ordering::Relaxed) => Fault::NotApplied,
            _ => Fault::None,
        }
    };
    rig.store = Arc::new(FaultyStore::new(Arc::clone(&rig.store), plan));
    let worker = rig.worker(|_| async { Ok(()) });
    let builder = rig.builder();
    let builder = builder.worker("unsettled", WorkerOptions::DEFAULT, worker);
    let plugin = builder.start().await.unwrap();
    let job = DelayQueueJob::raw("unsettled", "");
    plugin.submit_service().send(job).await.unwrap();
    rig.next().await;
    logged(&["the store failed", "unsettled"]).await;
    for _ in 0..5 {
        // Each time it claims, and fails to settle again.
        rig.pass(&plugin, seconds(1)).await;
    }
    is_broken.store(false, Ordering::Relaxed);
    rig.pass(&plugin, seconds(1)).await;
    logged(&["the store answers again", "unsettled"]).await;
    assert_eq!(count("unsettled", "the store failed"), 1);
}

/// As of a sharded type of which one shard lies on a node that hangs.
#[tokio::test]
async fn a_bucket_that_gives_no_answer_is_told_once_though_the_others_answer() {
    listen_to_log();
    let mut rig = Rig::default();
    let clock = Arc::new(rig.clock.clone());
    let sharded = ShardedMemory::new(clock.clone(), 4);
    let task_type = TaskType::new("half-silent").unwrap();
    let stuck = TaskId::new("stuck").unwrap();
    let silent = sharded.bucket_of(&task_type, &stuck).await.unwrap();
    let is_silent = Arc::new(AtomicBool::new(true));
    let plan = {
        let is_silent = Arc::clone(&is_silent);
        move |bucket: &Bucket, operation: &'static str| {
            if *bucket == silent && operation == "settle" && is_silent.load(Ordering::Relaxed) {
                Fault::Hang
            } else {
                Fault::None
            }
        }
    };
    let faulty = FaultyStore::new(Arc::new(sharded), |_| Fault::None);
    rig.store = Arc::new(faulty.with_bucket_plan(plan).with_delay(clock, millis(250)));
    let worker = rig.worker(|_| async { Ok(()) });
    let builder = rig.builder();
    let builder = builder.worker("half-silent", WorkerOptions::DEFAULT, worker);
    let plugin = builder.start().await.unwrap();
    let service = plugin.submit_service();
    let send = async |id: &str| {
        let job = DelayQueueJob::raw("half-silent", "").id(id);
        service.send(job).await.unwrap();
    };
    send("stuck").await;
    rig.next().await;
    for n in 0..10 {
        send(&n.to_string()).await;
        until("a start", || async {
            rig.clock.advance(millis(100));
            rig.has_started().then_some(())
        })
        .await;
        rig.next().await;
        rig.clock.advance(seconds(1));
    }
    logged(&["the store failed", "half-silent"]).await;
    assert_eq!(count("half-silent", "the store failed"), 1);
    assert_eq!(count("half-silent", "the store answers again"), 0);
    is_silent.store(false, Ordering::Relaxed);
    until("the store answers again", || async {
        rig.clock.advance(millis(100));
        (count("half-silent", "the store answers again") == 1).then_some(())
    })
    .await;
}
