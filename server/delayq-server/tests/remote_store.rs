//! An application as it stands, on a server instead of a store: the URL is all that differs.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by a panic, also in its helpers"
)]

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use delayq_plugin::store::{Durability, StoreOptions};
use delayq_plugin::{
    Component, DelayQueueJob, DelayQueuePlugin, Json, TaskResult, TaskState, TaskSubmitService,
    millis, seconds, task_worker,
};
use tempfile::TempDir;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

use self::server::Server;

mod server;

/// How long anything may take on a busy machine.
const PATIENCE: Duration = Duration::from_mins(2);
const TASKS: u32 = 300;

struct Seen(UnboundedSender<u32>);

#[task_worker(type = "order.cancel", lock = "2s", concurrency = 8)]
async fn cancel_order(Json(order): Json<u32>, seen: Component<Seen>) -> TaskResult {
    seen.0.send(order).ok();
    Ok(())
}

fn jobs() -> Vec<DelayQueueJob> {
    let job = |order: u32| {
        let job = cancel_order::job(&order).unwrap();
        job.id(format!("order-{order}"))
            .after(millis(u64::from(order) * 7))
    };
    (0..TASKS).map(job).collect()
}

fn options() -> StoreOptions {
    StoreOptions {
        call_timeout: seconds(2),
        ..StoreOptions::default()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_killed_and_started_again_loses_nothing() {
    let folder = TempDir::new().unwrap();
    let path: PathBuf = folder.path().join("server.sqlite");
    let store = format!("sqlite:{}", path.display());
    let mut server = Server::start(&["--store", &store], "127.0.0.1:0", true);
    let (address, token) = (server.address.clone(), server.token.clone().unwrap());
    let url = format!("delayq://{token}@{address}");

    let (sender, mut seen) = unbounded_channel();
    let plugin = DelayQueuePlugin::builder()
        .url(&url)
        .call_timeout(seconds(2))
        .component(Seen(sender))
        .start()
        .await
        .unwrap();
    let tasks = plugin.submit_service();
    assert_eq!(tasks.store().durability(), Durability::Disk);
    assert!(!tasks.store().name().contains(&token));
    for sent in tasks.send_all(jobs()).await {
        sent.unwrap();
    }

    let mut done = BTreeSet::new();
    while done.len() < 50 {
        done.insert(seen.recv().await.unwrap());
    }
    server.kill();
    // Nobody listens: certainly not applied, and the token is in no error.
    let refused = tasks.cancel("order.cancel", "order-299").await.unwrap_err();
    assert!(
        matches!(refused, delayq_plugin::Error::Unavailable { .. }),
        "{refused}"
    );
    assert!(!refused.to_string().contains(&token), "{refused}");

    let _server = Server::start(&["--store", &store], &address, false);
    let rest = async {
        while done.len() < TASKS as usize {
            done.insert(seen.recv().await.unwrap());
        }
    };
    tokio::time::timeout(PATIENCE, rest)
        .await
        .expect("all tasks run");
    plugin.shutdown(seconds(30)).await;

    let tasks = TaskSubmitService::connect(&url, options()).await.unwrap();
    for order in 0..TASKS {
        let id = format!("order-{order}");
        let found = tasks.find("order.cancel", &id).await.unwrap().unwrap();
        assert_eq!(found.state, TaskState::Done, "{found:?}");
    }
    tasks.close().await;
    assert!(tasks.types().await.is_err());
}

#[tokio::test]
async fn what_the_server_cannot_give_is_said_when_the_store_is_opened() {
    let folder = TempDir::new().unwrap();
    let store = format!("sqlite:{}", folder.path().join("a.sqlite").display());
    let server = Server::start(&["--store", &store], "127.0.0.1:0", true);
    let (address, token) = (&server.address, server.token.as_ref().unwrap());
    for (url, says) in [
        (format!("delayq://dq_1_x@{address}"), "token"),
        (format!("delayq://{token}@{address}/shop"), "namespace shop"),
        (
            format!("delayq://{token}@{address}?durability=replicated"),
            "durability",
        ),
        (format!("delayqs://{token}@{address}"), "delayqs://"),
    ] {
        let opened = TaskSubmitService::connect(&url, options()).await;
        let error = opened.unwrap_err().to_string();
        assert!(error.contains(says), "{url}: {error}");
        assert!(!error.contains(token.as_str()), "{error}");
    }
}
