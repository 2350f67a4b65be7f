//! What the log says of a store that fails in one way and works in others.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use delayq_plugin::{DelayQueueJob, WorkerOptions, seconds};
use delayq_tests::faulty::{Fault, FaultyStore};
use delayq_tests::rig::Rig;

use super::{LOG, listen_to_log, logged};

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
    let text = String::from_utf8_lossy(&LOG.lock().unwrap()).into_owned();
    let told = text
        .lines()
        .filter(|line| line.contains("unsettled") && line.contains("the store failed"));
    assert_eq!(told.count(), 1, "{text}");
}
