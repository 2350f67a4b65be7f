//! Stores that somebody else has laid hands on: named in the log and in `health()`, and survived.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "what a test must not do in silence, it does by panicking; it prints what it measured"
)]

mod herd;
mod log;
mod redis_server;
mod sqlite_file;

use std::collections::HashMap;
use std::io::Write;
use std::sync::{Arc, Mutex, Once};
use std::time::Duration;

use async_trait::async_trait;
use delayq_plugin::{
    DelayQueueJob, DelayQueuePlugin, DelayQueuePluginBuilder, Health, TaskContext, TaskResult,
    TaskState, TaskWorker, WorkerOptions,
};
use delayq_tests::rig::until;

/// What a handler is to be back within: its lock time and a second are promised, and its lock is
/// not lost here.
const SOON: Duration = Duration::from_secs(10);

/// Everything that was logged by this process.
static LOG: Mutex<Vec<u8>> = Mutex::new(Vec::new());

struct Log;

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        LOG.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

fn listen_to_log() {
    static LISTEN: Once = Once::new();
    LISTEN.call_once(|| {
        let log = tracing_subscriber::fmt()
            .with_writer(|| Log)
            .with_ansi(false);
        log.with_max_level(tracing::Level::INFO).init();
    });
}

/// Awaits so many lines of the log that have all these words.
async fn logged_times(times: usize, words: &[&str]) {
    until(&format!("{times} lines of the log with {words:?}"), || {
        let log = String::from_utf8_lossy(&LOG.lock().unwrap()).into_owned();
        let has_all = |line: &&str| words.iter().all(|word| line.contains(word));
        let found = log.lines().filter(has_all).count();
        std::future::ready((found >= times).then_some(()))
    })
    .await;
}

/// Awaits a line of the log that has all these words.
async fn logged(words: &[&str]) {
    until(&format!("a line of the log with {words:?}"), || {
        let log = String::from_utf8_lossy(&LOG.lock().unwrap()).into_owned();
        let found = log
            .lines()
            .any(|line| words.iter().all(|word| line.contains(word)));
        std::future::ready(found.then_some(()))
    })
    .await;
}

/// How often each task was started, by type and id.
type Starts = Arc<Mutex<HashMap<String, u32>>>;

struct Counting(Starts);

#[async_trait]
impl TaskWorker for Counting {
    async fn invoke(&self, _message: &str, cx: &TaskContext) -> TaskResult {
        let name = format!("{}/{}", cx.task_type(), cx.id());
        *self.0.lock().unwrap().entry(name).or_default() += 1;
        Ok(())
    }
}

/// A plugin on the store at `url`, which serves these types (or patterns).
async fn serve(url: &str, types: &[&str]) -> (DelayQueuePlugin, Starts) {
    serve_with(DelayQueuePlugin::builder().url(url), types).await
}

async fn serve_with(
    builder: DelayQueuePluginBuilder,
    types: &[&str],
) -> (DelayQueuePlugin, Starts) {
    listen_to_log();
    let starts = Starts::default();
    // The store is checked every 600 polls.
    let builder = builder.poll_interval(Duration::from_millis(10));
    let mut builder = builder.without_registered_workers();
    for task_type in types {
        let worker = Counting(Arc::clone(&starts));
        builder = builder.worker(*task_type, WorkerOptions::DEFAULT, worker);
    }
    (builder.start().await.unwrap(), starts)
}

/// Sends a task, again and again until it is accepted.
async fn send(plugin: &DelayQueuePlugin, task_type: &str, id: &str, after: Duration) {
    let tasks = plugin.submit_service();
    let job = DelayQueueJob::raw(task_type, "message")
        .id(id)
        .after(after)
        .keep();
    until(&format!("{task_type}/{id} is accepted"), async || {
        tasks.send(job.clone()).await.ok()
    })
    .await;
}

/// Sends a task that is due at once and awaits its end.
async fn works(plugin: &DelayQueuePlugin, task_type: &str, id: &str) {
    send(plugin, task_type, id, Duration::ZERO).await;
    let tasks = plugin.submit_service();
    let what = format!("{task_type}/{id} is done");
    let done = until(&what, async || {
        let found = tasks.find(task_type, id).await.ok()??;
        (found.state == TaskState::Done).then_some(())
    });
    let done = tokio::time::timeout(SOON, done).await;
    done.unwrap_or_else(|_| {
        panic!(
            "{task_type} is not served: {:#?}",
            LOG.lock().unwrap().len()
        )
    });
}

/// Awaits a health that says so.
async fn health(plugin: &DelayQueuePlugin, what: &str, says: impl Fn(&Health) -> bool) -> Health {
    until(&format!("a health that says: {what}"), async || {
        Some(plugin.health().await).filter(|health| says(health))
    })
    .await
}

async fn is_well(plugin: &DelayQueuePlugin) {
    health(plugin, "all is well", Health::is_ok).await;
}

/// Awaits that the loss of data is noticed by the handler of `task_type`, and the list of types
/// whole again.
async fn loss_is_noticed(plugin: &DelayQueuePlugin, task_type: &str, words: &str) {
    let says = |health: &Health| {
        let handler = health
            .handlers
            .iter()
            .find(|h| h.task_type.as_str() == task_type);
        let said = handler.and_then(|handler| handler.last_store_loss.as_deref());
        said.is_some_and(|said| said.contains(words))
    };
    health(plugin, words, says).await;
    logged(&["the store has lost data", task_type, words]).await;
    let tasks = plugin.submit_service();
    until("all served types are listed", async || {
        let listed = tasks.types().await.ok()?;
        plugin
            .served_types()
            .iter()
            .all(|served| listed.contains(served))
            .then_some(())
    })
    .await;
    logged(&["listed again", task_type]).await;
}
