//! Suspects run alone, but nobody waits for ever.

use std::time::Duration;

use delayq_core::store::{Bucket, ClaimRequest};
use delayq_core::{Clock, DelayQueueJob, TaskType, VirtualClock, seconds};

use super::{Scene, memory, until};

/// The attempt of the suspect, and of the others.
const SUSPECT: u32 = 3;
const OTHER: u32 = 1;

/// A plugin with one attempt under way, and a suspect whose second lock has just expired.
async fn with_a_suspect(clock: &VirtualClock) -> Scene {
    let store = memory(clock);
    let tasks = crate::TaskSubmitService::new(store.clone());
    let job = |id: &str| DelayQueueJob::raw("job", "x").id(id);
    tasks.send(job("suspect")).await.unwrap();
    let bucket = Bucket::whole(TaskType::new("job").unwrap());
    for lock_for in [10, 30].map(seconds) {
        let request = ClaimRequest::new(1, lock_for, clock.now());
        let claimed = store.claim(&bucket, &request).await.unwrap();
        assert_eq!(claimed.tasks.len(), 1);
        clock.advance(seconds(10));
    }
    let mut scene = Scene::start(&store, clock).await;
    tasks.send(job("beside")).await.unwrap();
    assert_eq!(scene.starts.recv().await, Some(OTHER));
    for _ in 0..20 {
        scene.poll(clock).await;
    }
    scene
}

/// Sends a task that is due at once, and lets time pass, second by second.
async fn send_and_wait(scene: &Scene, clock: &VirtualClock, wait: Duration) {
    let tasks = scene.plugin.submit_service();
    tasks.send(DelayQueueJob::raw("job", "x")).await.unwrap();
    for _ in 0..wait.as_secs() {
        clock.advance(seconds(1));
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
    }
}

#[tokio::test]
async fn a_suspect_runs_alone_and_lets_others_in_after_a_minute() {
    let clock = VirtualClock::default();
    let mut scene = with_a_suspect(&clock).await;
    send_and_wait(&scene, &clock, seconds(2)).await;
    assert!(scene.starts.is_empty(), "neither the suspect nor a new one");
    scene.gate.add_permits(1);
    assert_eq!(scene.starts.recv().await, Some(SUSPECT));
    send_and_wait(&scene, &clock, seconds(50)).await;
    assert!(scene.starts.is_empty(), "beside the suspect");
    send_and_wait(&scene, &clock, seconds(15)).await;
    for _ in 0..3 {
        assert_eq!(scene.starts.recv().await, Some(OTHER));
    }
    scene.gate.add_permits(4);
    until(async || scene.plugin.health().await.handlers[0].running == 0).await;
    assert_eq!(scene.plugin.health().await.handlers[0].locks_lost, 0);
    scene.plugin.shutdown(Duration::ZERO).await;
}

#[tokio::test]
async fn a_suspect_that_finds_no_quiet_runs_beside_the_others() {
    let clock = VirtualClock::default();
    let mut scene = with_a_suspect(&clock).await;
    send_and_wait(&scene, &clock, seconds(50)).await;
    assert!(scene.starts.is_empty(), "neither the suspect nor a new one");
    send_and_wait(&scene, &clock, seconds(15)).await;
    let mut started = Vec::new();
    for _ in 0..3 {
        started.extend(scene.starts.recv().await);
    }
    started.sort_unstable();
    assert_eq!(started, [OTHER, OTHER, SUSPECT]);
    scene.gate.add_permits(4);
    until(async || scene.plugin.health().await.handlers[0].running == 0).await;
    assert_eq!(scene.plugin.health().await.handlers[0].locks_lost, 0);
    scene.plugin.shutdown(Duration::ZERO).await;
}
