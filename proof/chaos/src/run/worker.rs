//! A worker process: a real plugin whose workers are recorded, and write their effects to the
//! effect log.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use delayq_plugin::{
    DelayQueueJob, DelayQueuePlugin, DelayQueuePluginBuilder, Delivery, TaskContext, TaskResult,
    TaskSubmitService, TaskWorker, millis,
};
use tokio::signal::unix::{SignalKind, signal};

use super::application::Application;
use super::child::{say_done, say_up};
use super::effect_log::Effects;
use super::failure::{Failure, Result};
use super::part::{Part, idle_type, own_type};
use super::task_body::{Message, TaskBody};
use super::workload::{Diligent, options};
use crate::event::What;
use crate::record::{RecordedWorker, Recorder};

/// Somebody's worker. What it does counts as one effect, from its start to its end.
struct Observed {
    inner: Arc<dyn TaskWorker>,
    effects: Arc<Effects>,
    started: Arc<AtomicU64>,
}

#[async_trait::async_trait]
impl TaskWorker for Observed {
    async fn invoke(&self, message: &str, cx: &TaskContext) -> TaskResult {
        self.invoke_bytes(message.as_bytes(), cx).await
    }

    async fn invoke_bytes(&self, message: &[u8], cx: &TaskContext) -> TaskResult {
        self.started.fetch_add(1, Ordering::Relaxed);
        let task = format!("{}/{}", cx.task_type(), cx.id());
        let effect = self.effects.begin(task, cx.fence()).await?;
        let result = self.inner.invoke_bytes(message, cx).await;
        effect.finish().await?;
        result
    }
}

/// Does what its messages say, and sends a task of its type from within this process when told to.
struct Relay {
    tasks: TaskSubmitService,
}

#[async_trait::async_trait]
impl TaskWorker for Relay {
    async fn invoke(&self, message: &str, cx: &TaskContext) -> TaskResult {
        let given: Message = serde_json::from_str(message)?;
        if given.body == TaskBody::Send {
            let (body, padding) = (TaskBody::Work(0), String::new());
            let job = DelayQueueJob::new(cx.task_type().as_str(), &Message { body, padding })?;
            self.tasks.send(job.id(next_id(cx.id().as_str()))).await?;
        }
        Diligent.invoke(message, cx).await
    }
}

/// The id of the task that a task with [`TaskBody::Send`] sends.
pub(crate) fn next_id(id: &str) -> String {
    format!("{id}-next")
}

/// Works until SIGTERM.
pub(crate) async fn work(
    part: &Part,
    recorder: &Recorder,
    application: &impl Application,
) -> Result<()> {
    let mut terminate = signal(SignalKind::terminate())?;
    let started = Arc::new(AtomicU64::new(0));
    let plugin = start(part, recorder, application, &started).await;
    say_up();
    let mut ticks = tokio::time::interval(millis(250));
    loop {
        tokio::select! {
            _ = terminate.recv() => break,
            _ = ticks.tick() => say_done(started.load(Ordering::Relaxed)),
        }
    }
    plugin.shutdown(millis(part.lock_ms)).await;
    Ok(())
}

/// Starts the plugin, and tries again while a fault keeps it from starting.
async fn start(
    part: &Part,
    recorder: &Recorder,
    application: &impl Application,
    started: &Arc<AtomicU64>,
) -> DelayQueuePlugin {
    loop {
        match try_start(part, recorder, application, started).await {
            Ok(plugin) => return plugin,
            Err(failure) => eprintln!("the plugin does not start yet: {failure}"),
        }
        tokio::time::sleep(millis(100)).await;
    }
}

async fn try_start(
    part: &Part,
    recorder: &Recorder,
    application: &impl Application,
    started: &Arc<AtomicU64>,
) -> Result<DelayQueuePlugin> {
    let place = part.place(recorder).await;
    let builder = application.plugin(&place).await;
    let builder = builder.map_err(|error| Failure(error.to_string()))?;
    // Beside the application's workers stand one that misbehaves on request, whose time limit is
    // short as it may hang, and one that sleeps until it is woken.
    let options = options(2 * millis(part.lock_ms));
    let tasks = TaskSubmitService::new(Arc::clone(&place.store));
    let builder = builder
        .store(place.store)
        .worker(own_type(&part.name), options, Diligent)
        .worker(idle_type(&part.name), options, Relay { tasks });
    let builder = observed(builder, part, recorder, started);
    Ok(builder.start().await?)
}

/// All workers recorded, and with locks of the run's length.
fn observed(
    builder: DelayQueuePluginBuilder,
    part: &Part,
    recorder: &Recorder,
    started: &Arc<AtomicU64>,
) -> DelayQueuePluginBuilder {
    let (lock, recorder, started) = (millis(part.lock_ms), recorder.clone(), Arc::clone(started));
    let effects = Arc::new(Effects::on(part.effect_socket()));
    builder.map_workers(move |mut built| {
        let inner = Observed {
            inner: built.worker,
            effects: Arc::clone(&effects),
            started: Arc::clone(&started),
        };
        if built.options.delivery == Delivery::AtMostOnce {
            let task_type = built.task_type.clone();
            recorder.record(What::AtMostOnce { task_type });
        }
        let recorder = recorder.clone();
        let worker = RecordedWorker::new(inner, recorder, &built.name, &built.task_type);
        built.options.lock = lock;
        built.worker = Arc::new(worker);
        built
    })
}
