//! A worker process: a real plugin whose workers do what their messages say.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use delayq_plugin::{
    Backoff, DelayQueuePlugin, RetryPolicy, TaskContext, TaskResult, TaskWorker, WorkerOptions,
    millis,
};
use tokio::signal::unix::{SignalKind, signal};

use super::chore::Message;
use super::failure::Result;
use super::part::{Part, SHARED_TYPES, own_type};
use super::sink::Effects;
use crate::record::{RecordedWorker, Recorder};

/// As many attempts and expired locks as faults may need.
const MANY: u32 = 100_000;

struct Diligent {
    effects: Arc<Effects>,
    started: Arc<AtomicU64>,
}

#[async_trait::async_trait]
impl TaskWorker for Diligent {
    async fn invoke(&self, message: &str, cx: &TaskContext) -> TaskResult {
        self.started.fetch_add(1, Ordering::Relaxed);
        let message: Message = serde_json::from_str(message)?;
        let task = format!("{}/{}", cx.task_type(), cx.id());
        let effect = self.effects.begin(task, cx.fence()).await?;
        let result = message.chore.perform(cx).await;
        effect.finish().await?;
        result
    }
}

/// Works until SIGTERM.
pub(crate) async fn work(part: &Part, recorder: Recorder) -> Result<()> {
    let mut terminate = signal(SignalKind::terminate())?;
    let started = Arc::new(AtomicU64::new(0));
    let plugin = start(part, &recorder, &started).await?;
    println!("up");
    let mut ticks = tokio::time::interval(millis(250));
    loop {
        tokio::select! {
            _ = terminate.recv() => break,
            _ = ticks.tick() => println!("done {}", started.load(Ordering::Relaxed)),
        }
    }
    plugin.shutdown(millis(part.lock_ms)).await;
    Ok(())
}

/// Starts the plugin, and waits while a fault keeps it from starting.
async fn start(
    part: &Part,
    recorder: &Recorder,
    started: &Arc<AtomicU64>,
) -> Result<DelayQueuePlugin> {
    let effects = Arc::new(Effects::on(part.sinks()));
    loop {
        let mut builder = DelayQueuePlugin::builder()
            .without_registered_workers()
            .store(part.store(recorder).await)
            .max_lock_expiries(MANY);
        let own = own_type(&part.name);
        for task_type in SHARED_TYPES.into_iter().chain([own.as_str()]) {
            let worker = Diligent {
                effects: Arc::clone(&effects),
                started: Arc::clone(started),
            };
            let worker = RecordedWorker::new(worker, recorder.clone(), "diligent", task_type);
            builder = builder.worker(task_type, options(part, task_type == own), worker);
        }
        match builder.start().await {
            Ok(plugin) => return Ok(plugin),
            Err(error) => eprintln!("the plugin does not start yet: {error}"),
        }
        tokio::time::sleep(millis(100)).await;
    }
}

/// Retries come soon. Tasks of a process's own type may hang, so their time limit is short.
fn options(part: &Part, is_own: bool) -> WorkerOptions {
    let lock = millis(part.lock_ms);
    WorkerOptions {
        lock,
        timeout: if is_own { 2 * lock } else { 20 * lock },
        retry: RetryPolicy {
            max_attempts: MANY,
            backoff: Backoff::Fixed,
            base: millis(50),
            ..RetryPolicy::DEFAULT
        },
        ..WorkerOptions::DEFAULT
    }
}
