//! Push goes on while its namespace is moved.

use std::collections::BTreeSet;

use axum::Router;
use axum::http::{HeaderMap, StatusCode};
use delayq_plugin::TypePattern;
use delayq_tests::rig::until;
use tokio::sync::mpsc;

use super::*;

const TASKS: usize = 200;

/// A target, and the ids of the tasks that it was sent.
async fn receiver() -> (String, mpsc::UnboundedReceiver<String>) {
    let (sender, got) = mpsc::unbounded_channel();
    let take = move |headers: HeaderMap| {
        let id = headers["delayq-task-id"].to_str().unwrap().to_owned();
        let _ = sender.send(id);
        async { StatusCode::NO_CONTENT }
    };
    let app = Router::new().fallback(take);
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, app).await });
    (url, got)
}

#[tokio::test]
async fn every_task_is_pushed_once_before_during_and_after_the_move() {
    let folder = tempfile::tempdir().unwrap();
    let mut config = config(&folder);
    config.push.allow_http = true;
    config.push.allow_networks = vec!["127.0.0.0/8".to_owned()];
    let app = App::open(config, Draining::default()).await.unwrap();
    tokio::spawn(Arc::clone(&app.spaces).follow());
    tokio::spawn(Arc::clone(&app.spaces).run());
    let shop = Namespace::new("shop").unwrap();
    let space = app.spaces.of(&shop).await.unwrap();
    let (url, mut got) = receiver().await;
    let target = serde_json::json!({"http": {"url": url}});
    let target = serde_json::from_value(target).unwrap();
    let pattern = TypePattern::new("job").unwrap();
    space.push.set(&pattern, target).await.unwrap();
    let mover = Mover::new(Arc::clone(&space.place));
    let mut pushed = BTreeSet::new();
    for number in 0..TASKS {
        // Due over the time that the move takes, some when it is over.
        let delay = Duration::from_millis(u64::try_from(number).unwrap() * 15);
        let job = DelayQueueJob::raw("job", "x").id(format!("{number}"));
        space.tasks.send(job.after(delay)).await.unwrap();
        if number == TASKS / 2 {
            mover.begin(Some("b".to_owned())).await.unwrap();
        }
    }
    while pushed.len() < TASKS {
        let next = tokio::time::timeout(Duration::from_secs(30), got.recv());
        let id = next.await.expect("a push comes").unwrap();
        assert!(pushed.insert(id.clone()), "{id} was pushed twice");
    }
    until("the servers drive the move on", async || {
        mover.status().await.unwrap().has_moved().then_some(())
    })
    .await;
    let late = DelayQueueJob::raw("job", "x").id("late");
    space.tasks.send(late).await.unwrap();
    let next = tokio::time::timeout(Duration::from_secs(30), got.recv());
    assert_eq!(next.await.expect("a push comes").as_deref(), Some("late"));
    assert!(got.try_recv().is_err());
    drop(space);
    app.close().await;
}
