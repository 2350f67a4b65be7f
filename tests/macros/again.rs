//! A worker that sends itself again, under its own id.

use std::sync::Arc;

use delayq_plugin::store::{MemoryStore, SubmitOutcome};
use delayq_plugin::{
    Component, DelayQueuePlugin, Json, TaskContext, TaskResult, TaskState, TaskSubmitService,
    task_worker,
};

use crate::arguments::{Mailer, Smtp};
use crate::tools::Seen;

#[task_worker(type = "again.round")]
async fn play(
    Json(round): Json<u32>,
    cx: &TaskContext,
    tasks: Component<TaskSubmitService>,
    seen: Component<Seen>,
) -> TaskResult {
    seen.push(format!("round {round}, attempt {}", cx.attempt()));
    if round < 3 {
        let next = play::job(&(round + 1))?.id(cx.id().as_str());
        let refused = tasks.send(next.clone()).await;
        seen.push(refused.map_or_else(|error| error.to_string(), |_| "sent".to_owned()));
        let receipt = tasks.send(next.again_if_running()).await?;
        let runs_again = matches!(receipt.outcome, SubmitOutcome::RunsAgain { .. });
        assert!(runs_again && receipt.due_at().is_some());
    }
    Ok(())
}

#[tokio::test]
async fn a_worker_that_sends_its_own_id_runs_again_once_it_has_ended() {
    let seen = Arc::new(Seen::default());
    let plugin = DelayQueuePlugin::builder()
        .store(Arc::new(MemoryStore::default()))
        .component_arc(Arc::clone(&seen))
        .component(42_u64)
        .component(Arc::new(7_u32))
        .component_arc::<dyn Mailer>(Arc::new(Smtp))
        .pool("post", 1)
        .start()
        .await
        .expect("all components are there");
    let tasks = plugin.submit_service();
    let mut ended = tasks.events();
    let job = play::job(&1).expect("a number has a JSON form").id("game");
    tasks.send(job).await.expect("the memory store takes it");
    let is_done = async || {
        let task = tasks.find("again.round", "game").await;
        task.is_ok_and(|task| task.is_some_and(|task| task.state == TaskState::Done))
    };
    while !is_done().await {
        ended.next().await.expect("the plugin runs");
    }
    let refused = "task \"game\" of type again.round exists already and is running: add \
                   again_if_running() to run once more after it, or use another id, or keep()";
    let expected = [
        "round 1, attempt 1",
        refused,
        "round 2, attempt 1",
        refused,
        "round 3, attempt 1",
    ];
    assert_eq!(seen.take(), expected);
}
