use std::time::Duration;

use delayq_core::{DelayQueueJob, TaskState, VirtualClock, seconds};

use super::{Scene, memory, until};

/// Found by a hostile walk: a process whose lock had expired took its own task over, and ran the
/// second attempt beside the first.
#[tokio::test]
async fn after_a_lost_lock_the_next_attempt_waits_for_the_worker_of_the_earlier_one() {
    let clock = VirtualClock::default();
    let store = memory(&clock);
    let mut scene = Scene::start(&store, &clock).await;
    let tasks = scene.plugin.submit_service();
    tasks
        .send(DelayQueueJob::raw("job", "x").id("a"))
        .await
        .unwrap();
    assert_eq!(scene.starts.recv().await, Some(1));
    // As after a stop of the process: the lock is over before anybody can extend it.
    clock.advance(seconds(31));
    until(async || scene.plugin.health().await.handlers[0].locks_lost == 1).await;
    for _ in 0..5 {
        scene.poll(&clock).await;
        assert!(scene.starts.is_empty(), "beside the earlier attempt");
    }
    let info = tasks.find("job", "a").await.unwrap().unwrap();
    assert!(info.history.releases > 0, "{info:?}");
    scene.gate.add_permits(1);
    until(async || scene.plugin.health().await.handlers[0].running == 0).await;
    for _ in 0..3 {
        scene.poll(&clock).await;
    }
    assert_eq!(scene.starts.recv().await, Some(2), "no attempt was burned");
    scene.gate.add_permits(1);
    until(async || {
        let info = tasks.find("job", "a").await.unwrap().unwrap();
        info.state == TaskState::Done
    })
    .await;
    scene.plugin.shutdown(Duration::ZERO).await;
}
