//! Bounds of dead tasks, under virtual time.
#![allow(clippy::unwrap_used, reason = "tests: a panic is a failure")]

use std::time::Duration;

use delayq_plugin::{TaskError, TaskState, WorkerOptions, hours, minutes};
use delayq_tests::rig::{Rig, reaches, send, until};

#[tokio::test]
async fn dead_tasks_beyond_age_and_number_are_discarded_the_oldest_first() {
    let rig = Rig::default();
    let worker = rig.worker(|_| async { Err(TaskError::dead("no such order")) });
    let plugin = rig
        .builder()
        .dead_retention(hours(2))
        .max_dead(3)
        .worker("job", WorkerOptions::DEFAULT, worker)
        .start()
        .await
        .unwrap();
    let tasks = plugin.submit_service();
    for id in ["a", "b", "c", "d", "e"] {
        send(&tasks, id, Duration::ZERO).await;
        reaches(&tasks, id, TaskState::Dead).await;
        rig.clock.advance(Duration::from_millis(10));
    }
    let dead = |count: u64| {
        let tasks = tasks.clone();
        move || {
            let tasks = tasks.clone();
            async move { (tasks.stats("job").await.unwrap().dead == count).then_some(()) }
        }
    };
    rig.clock.advance(minutes(1));
    until("two are discarded", dead(3)).await;
    assert_eq!(tasks.find("job", "b").await.unwrap(), None);
    assert!(tasks.find("job", "c").await.unwrap().is_some());
    rig.clock.advance(hours(2));
    until("all are too old", dead(0)).await;
    plugin.shutdown(Duration::ZERO).await;
}

#[tokio::test]
async fn without_bounds_dead_tasks_stay() {
    let rig = Rig::default();
    let options = WorkerOptions::DEFAULT;
    let plugin = rig
        .start(options, |_| async { Err(TaskError::dead("no such order")) })
        .await;
    let tasks = plugin.submit_service();
    send(&tasks, "a", Duration::ZERO).await;
    reaches(&tasks, "a", TaskState::Dead).await;
    rig.clock.advance(hours(24 * 365));
    send(&tasks, "b", Duration::ZERO).await;
    reaches(&tasks, "b", TaskState::Dead).await;
    assert_eq!(tasks.stats("job").await.unwrap().dead, 2);
    plugin.shutdown(Duration::ZERO).await;
}
