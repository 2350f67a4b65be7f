//! A type that is dropped while a plugin serves it.

use std::sync::Arc;

use delayq_core::{VirtualClock, WorkerOptions, seconds};
use tokio::sync::{Semaphore, mpsc};

use super::{Stubborn, builder, memory, until};
use crate::{DelayQueueJob, TaskType};

#[tokio::test]
async fn a_dropped_type_of_a_pattern_stays_dropped_until_its_next_task() {
    let clock = VirtualClock::default();
    let store = memory(&clock);
    let (starts, mut started) = mpsc::unbounded_channel();
    let gate = Arc::new(Semaphore::new(9));
    let worker = || Stubborn {
        starts: starts.clone(),
        gate: Arc::clone(&gate),
    };
    let builder = builder(&store, &clock).on_application_runtime();
    let builder = builder.worker("job.*", WorkerOptions::DEFAULT, worker());
    let builder = builder.worker("own", WorkerOptions::DEFAULT, worker());
    let plugin = builder.start().await.unwrap();
    let tasks = plugin.submit_service();
    let send = async || tasks.send(DelayQueueJob::raw("job.a", "m")).await.unwrap();
    send().await;
    started.recv().await.unwrap();
    until(async || tasks.drop_type("job.a").await.is_ok()).await;
    tasks.drop_type("own").await.unwrap();
    let listed = async || {
        let types = tasks.types().await.unwrap();
        types.iter().map(TaskType::to_string).collect::<Vec<_>>()
    };
    assert_eq!(listed().await, [""; 0]);
    // The list is read every few polls, and the one with a worker of its own is listed again.
    until(async || {
        clock.advance(seconds(1));
        !listed().await.is_empty()
    })
    .await;
    assert_eq!(listed().await, ["own"]);
    send().await;
    started.recv().await.unwrap();
    assert_eq!(listed().await, ["job.a", "own"]);
    let health = plugin.health().await;
    assert!(
        health
            .handlers
            .iter()
            .all(|handler| handler.store_losses == 0)
    );
}
