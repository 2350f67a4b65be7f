//! An application that a server calls, and that ends its tasks after the calls.

#![allow(
    clippy::unwrap_used,
    reason = "a test fails by a panic, also in its helpers"
)]

use std::time::Duration;

use delayq_endpoint::{Endpoint, LaterSettlement, Settlements};
use delayq_plugin::store::{ExtendOutcome, Reply, SettleOutcome, StoreOptions};
use delayq_plugin::{
    Component, DelayQueueJob, DelayQueuePlugin, ReplyOutcome, TaskContext, TaskError, TaskInfo,
    TaskResult, TaskState, TaskSubmitService, seconds, task_worker,
};
use tempfile::TempDir;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use self::server::Server;

mod server;

/// How long anything may take on a busy machine.
const PATIENCE: Duration = Duration::from_mins(2);

/// What the workers left open.
struct Open(UnboundedSender<(u32, LaterSettlement)>);

#[task_worker(type = "payment.*", retry(max = 2, base = "1ms"))]
async fn book(
    _order: &str,
    cx: &TaskContext,
    settlements: Component<Settlements>,
    open: Component<Open>,
) -> TaskResult {
    let settlement = settlements.later(cx)?;
    assert!(settlements.later(cx).is_err(), "an attempt has one end");
    open.0.send((cx.attempt(), settlement)).ok();
    Ok(())
}

/// A server, and an application that it calls.
struct Site {
    server: Server,
    /// The options of the server.
    options: Vec<String>,
    tasks: TaskSubmitService,
    callee: Endpoint,
    open: UnboundedReceiver<(u32, LaterSettlement)>,
    _folder: TempDir,
}

impl Site {
    async fn open() -> Self {
        let folder = TempDir::new().unwrap();
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let config = folder.path().join("server.toml");
        let text = format!("[service.static]\n\"payment.book\" = [\"{url}\"]\n");
        std::fs::write(&config, text).unwrap();
        let store = format!("sqlite:{}", folder.path().join("a.sqlite").display());
        let options = ["--config", config.to_str().unwrap(), "--store", &store];
        let options: Vec<_> = options.iter().map(ToString::to_string).collect();
        let server = Server::start(&options, "127.0.0.1:0", true);
        let url = format!(
            "delayq://{}@{}",
            server.token.as_ref().unwrap(),
            server.address
        );
        let (sender, open) = unbounded_channel();
        let builder = DelayQueuePlugin::builder().component(Open(sender));
        let callee = Endpoint::of(builder.url(&url)).await.unwrap();
        let app = callee.router();
        tokio::spawn(async move { axum::serve(listener, app).await });
        let tasks = TaskSubmitService::connect(&url, StoreOptions::default());
        Self {
            server,
            options,
            tasks: tasks.await.unwrap(),
            callee,
            open,
            _folder: folder,
        }
    }

    /// Has a new task called; its first attempt.
    async fn call(&mut self, task_type: &str) -> LaterSettlement {
        let job = DelayQueueJob::raw(task_type, "x").id("1");
        self.tasks.send(job).await.unwrap();
        let (attempt, settlement) = self.next().await;
        assert_eq!(attempt, 1);
        settlement
    }

    async fn next(&mut self) -> (u32, LaterSettlement) {
        let next = tokio::time::timeout(PATIENCE, self.open.recv()).await;
        next.expect("the server calls").unwrap()
    }

    async fn until(&self, task_type: &str, state: TaskState) -> TaskInfo {
        let wait = async {
            loop {
                let task = self.tasks.find(task_type, "1").await.unwrap();
                if let Some(task) = task.filter(|task| task.state == state) {
                    return task;
                }
            }
        };
        tokio::time::timeout(PATIENCE, wait)
            .await
            .expect("it comes")
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_task_is_settled_after_its_call_as_its_worker_would_end_it_but_once() {
    let mut site = Site::open().await;
    let first = site.call("payment.book").await;
    site.until("payment.book", TaskState::Running).await;
    let extended = first.extend(seconds(60)).await.unwrap();
    assert!(matches!(extended, ExtendOutcome::Extended(_)));
    // The retry policy of the worker: two attempts, a millisecond apart.
    let failed = first.fail(TaskError::retry("not yet")).await;
    assert_eq!(failed.unwrap(), SettleOutcome::Settled);
    let (attempt, second) = site.next().await;
    assert_eq!(attempt, 2);
    // An attempt has one end.
    first.done().await.unwrap();
    site.until("payment.book", TaskState::Running).await;
    let failed = second.fail(TaskError::retry("never")).await;
    assert_eq!(failed.unwrap(), SettleOutcome::Settled);
    let dead = site.until("payment.book", TaskState::Dead).await;
    assert_eq!(dead.history.last_error.as_deref(), Some("never"));
    site.callee.shutdown(seconds(5)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_settlement_reaches_another_server_when_the_one_that_called_has_died() {
    let mut site = Site::open().await;
    let first = site.call("payment.book").await;
    site.until("payment.book", TaskState::Running).await;
    let address = site.server.address.clone();
    site.server.kill();
    let refused = first.done().await.unwrap_err();
    assert!(refused.is_transient() || refused.is_indeterminate());
    site.server = Server::start(&site.options, &address, false);
    // Repeating it is harmless.
    for _ in 0..2 {
        let reply = Reply::json("booked").unwrap();
        let settled = first.done_with(reply).await.unwrap();
        assert_eq!(settled, SettleOutcome::Settled);
    }
    let replied = site.tasks.wait_for_reply("payment.book", "1", PATIENCE);
    let reply = replied.await.unwrap().outcome;
    assert!(
        matches!(&reply, ReplyOutcome::Replied(reply) if &reply.body[..] == b"\"booked\""),
        "{reply:?}"
    );
    assert_eq!(site.until("payment.book", TaskState::Done).await.attempt, 1);
    site.callee.shutdown(seconds(5)).await;
}

#[tokio::test]
async fn a_worker_that_settles_later_needs_a_server_to_settle_at() {
    let (sender, _open) = unbounded_channel();
    let builder = DelayQueuePlugin::builder().component(Open(sender));
    let refused = Endpoint::of(builder).await.unwrap_err().to_string();
    assert!(refused.contains("Settlements"), "{refused}");
}
