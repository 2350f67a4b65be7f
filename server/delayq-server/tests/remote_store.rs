//! An application as it stands, on a server instead of a store: the URL is all that differs.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by a panic, also in its helpers"
)]

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use delayq_plugin::store::{Durability, StoreOptions};
use delayq_plugin::{
    Component, DelayQueueJob, DelayQueuePlugin, Error, Json, TaskResult, TaskState,
    TaskSubmitService, hours, millis, seconds, task_worker,
};
use rustix::process::Signal;
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
    assert!(matches!(refused, Error::Unavailable { .. }), "{refused}");
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

/// A send was refused at once while the server was away, although its page promises a try until the
/// call timeout is over. A call whose answer is lost is in doubt, and is not sent again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_send_outlasts_a_restart_and_tells_what_is_in_doubt_from_what_was_not_sent() {
    let folder = TempDir::new().unwrap();
    let store = format!("sqlite:{}", folder.path().join("a.sqlite").display());
    let mut server = Server::start(&["--store", &store], "127.0.0.1:0", true);
    let (address, token) = (server.address.clone(), server.token.clone().unwrap());
    let url = format!("delayq://{token}@{address}");
    let connect = async |call_timeout| {
        let options = StoreOptions {
            call_timeout,
            ..StoreOptions::default()
        };
        TaskSubmitService::connect(&url, options).await.unwrap()
    };
    let (hasty, patient) = (connect(seconds(3)).await, connect(PATIENCE).await);
    let job = |id: &str| DelayQueueJob::raw("mail.send", id).id(id).after(hours(1));

    server.signal(Signal::STOP);
    let lost = hasty.send(job("lost")).await.unwrap_err();
    assert!(lost.is_indeterminate(), "{lost}");
    server.signal(Signal::CONT);
    server.kill();

    // A connection that has just ended is in doubt, too.
    let away = async {
        loop {
            let begun = Instant::now();
            match hasty.send(job("refused")).await.unwrap_err() {
                error if error.is_indeterminate() => {}
                error => return (error, begun.elapsed()),
            }
        }
    };
    let (refused, took) = tokio::time::timeout(PATIENCE, away).await.unwrap();
    assert!(matches!(refused, Error::Unavailable { .. }), "{refused}");
    // It was tried until there was no time for a further try.
    assert!(took > seconds(1) && took < seconds(30), "{took:?}");

    let mut jobs: Vec<_> = (0..1_500).map(|n| job(&format!("many-{n}"))).collect();
    jobs.push(job("patient"));
    let mut sending = tokio::spawn(async move { patient.send_all(jobs).await });
    let waits = tokio::time::timeout(millis(200), &mut sending).await;
    assert!(waits.is_err(), "{waits:?}");
    let _server = Server::start(&["--store", &store], &address, false);
    for sent in sending.await.unwrap() {
        assert!(sent.unwrap().due_at().is_some());
    }
    let tasks = connect(seconds(10)).await;
    assert!(tasks.find("mail.send", "patient").await.unwrap().is_some());
    assert!(tasks.find("mail.send", "refused").await.unwrap().is_none());
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
