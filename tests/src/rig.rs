//! A plugin under virtual time, on the memory store: what the lifecycle tests turn and watch.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use delayq_core::memory::MemoryStore;
use delayq_core::store::{Store, StoreOptions};
use delayq_plugin::{
    DelayQueueJob, DelayQueuePlugin, DelayQueuePluginBuilder, TaskContext, TaskInfo, TaskResult,
    TaskState, TaskSubmitService, TaskWorker, WorkerOptions,
};
use delayq_testing::VirtualClock;
use tokio::sync::mpsc;

/// How long a test waits for an event before it fails: far more than any machine needs.
pub const PATIENCE: Duration = Duration::from_mins(1);

/// Between two questions. Tests run beside each other, and one that only waits leaves the
/// processors to the others.
const LONGEST_PAUSE: Duration = Duration::from_millis(10);
/// Questions without a pause, for what is a matter of a few steps of the runtime.
const AT_ONCE: usize = 20;

/// Awaits `event`, which must come.
///
/// # Panics
/// After [`PATIENCE`].
pub async fn soon<T>(what: &str, event: impl Future<Output = T>) -> T {
    let Ok(value) = tokio::time::timeout(PATIENCE, event).await else {
        panic!("{what} did not happen within {PATIENCE:?}");
    };
    value
}

/// Asks again and again until `question` is answered with `Some`: at first without a pause, then
/// with longer and longer ones, up to 10 ms. Needs a runtime whose time is not paused.
///
/// # Panics
/// After [`PATIENCE`].
pub async fn until<T, F: Future<Output = Option<T>>>(
    what: &str,
    mut question: impl FnMut() -> F,
) -> T {
    soon(what, async {
        for _ in 0..AT_ONCE {
            if let Some(answer) = question().await {
                return answer;
            }
            tokio::task::yield_now().await;
        }
        let mut pause = Duration::from_millis(1);
        loop {
            if let Some(answer) = question().await {
                return answer;
            }
            // Between questions, and not a guess at how long something takes.
            tokio::time::sleep(pause).await;
            pause = (2 * pause).min(LONGEST_PAUSE);
        }
    })
    .await
}

/// One start of a worker.
#[derive(Clone, Debug)]
pub struct Start {
    /// The message.
    pub message: String,
    /// The context.
    pub cx: TaskContext,
    /// The virtual time of the start.
    pub at: Duration,
}

type Script = dyn Fn(Start) -> Pin<Box<dyn Future<Output = TaskResult> + Send>> + Send + Sync;

impl std::fmt::Debug for Scripted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Scripted")
    }
}

/// A worker that reports its starts and then does what the test's closure says.
pub struct Scripted {
    starts: mpsc::UnboundedSender<Start>,
    clock: Arc<dyn delayq_plugin::Clock>,
    script: Box<Script>,
}

#[async_trait]
impl TaskWorker for Scripted {
    async fn invoke(&self, message: &str, cx: &TaskContext) -> TaskResult {
        let start = Start {
            message: message.to_owned(),
            cx: cx.clone(),
            at: self.clock.elapsed(),
        };
        // The test may have ended already.
        let _ = self.starts.send(start.clone());
        (self.script)(start).await
    }
}

/// The parts of a test: a clock, a store on it, and the starts that workers report.
#[derive(Debug)]
pub struct Rig {
    /// The virtual clock of store and plugin.
    pub clock: VirtualClock,
    /// The store; replace it to wrap it.
    pub store: Arc<dyn Store>,
    sender: mpsc::UnboundedSender<Start>,
    starts: mpsc::UnboundedReceiver<Start>,
}

impl Default for Rig {
    fn default() -> Self {
        let clock = VirtualClock::default();
        let store = Arc::new(MemoryStore::new(
            Arc::new(clock.clone()),
            StoreOptions::default(),
        ));
        let (sender, starts) = mpsc::unbounded_channel();
        Self {
            clock,
            store,
            sender,
            starts,
        }
    }
}

impl Rig {
    /// A worker that reports to this rig and returns what `script` says.
    pub fn worker<F>(&self, script: impl Fn(Start) -> F + Send + Sync + 'static) -> Scripted
    where
        F: Future<Output = TaskResult> + Send + 'static,
    {
        let script = Box::new(move |start| {
            Box::pin(script(start)) as Pin<Box<dyn Future<Output = TaskResult> + Send>>
        });
        Scripted {
            starts: self.sender.clone(),
            clock: Arc::new(self.clock.clone()),
            script,
        }
    }

    /// A builder on this rig's store and clock, without the linked-in workers.
    pub fn builder(&self) -> DelayQueuePluginBuilder {
        DelayQueuePlugin::builder()
            .without_registered_workers()
            .store(Arc::clone(&self.store))
            .clock(Arc::new(self.clock.clone()))
    }

    /// A plugin with one worker, of type `job`.
    ///
    /// # Panics
    /// When it does not start.
    pub async fn start<F>(
        &self,
        options: WorkerOptions,
        script: impl Fn(Start) -> F + Send + Sync + 'static,
    ) -> DelayQueuePlugin
    where
        F: Future<Output = TaskResult> + Send + 'static,
    {
        let worker = self.worker(script);
        self.builder()
            .worker("job", options, worker)
            .start()
            .await
            .expect("the plugin starts")
    }

    /// The next start of a worker, which must come.
    ///
    /// # Panics
    /// When none comes.
    pub async fn next(&mut self) -> Start {
        soon("the start of a worker", self.starts.recv())
            .await
            .expect("the rig holds a sender")
    }

    /// Whether a worker was started that nobody has looked at.
    #[must_use]
    pub fn has_started(&self) -> bool {
        !self.starts.is_empty()
    }

    /// Lets `span` pass and awaits that every handler has looked into the store since. At least a
    /// poll interval (1 s), so that every handler does look.
    ///
    /// # Panics
    /// When `span` is shorter, or a handler does not look.
    pub async fn pass(&self, plugin: &DelayQueuePlugin, span: Duration) {
        assert!(
            span >= Duration::from_secs(1),
            "a shorter span need not make a handler look"
        );
        self.clock.advance(span);
        until("a look of every handler", || async {
            let handlers = plugin.health().await.handlers;
            let looked = |span: Option<Duration>| span == Some(Duration::ZERO);
            handlers
                .iter()
                .all(|handler| looked(handler.since_last_claim))
                .then_some(())
        })
        .await;
    }
}

/// Sends a `job` with this message as its id, due after `delay`.
///
/// # Panics
/// When it is not accepted.
pub async fn send(tasks: &TaskSubmitService, id: &str, delay: Duration) {
    let job = DelayQueueJob::raw("job", id).id(id).after(delay);
    tasks.send(job).await.expect("the task is accepted");
}

/// The task `id` of type `job`.
///
/// # Panics
/// When the store knows nothing of it.
pub async fn info(tasks: &TaskSubmitService, id: &str) -> TaskInfo {
    tasks
        .find("job", id)
        .await
        .expect("the store answers")
        .expect("the task is known")
}

/// Awaits that the task `id` of type `job` is in `state`.
///
/// # Panics
/// When it does not come there.
pub async fn reaches(tasks: &TaskSubmitService, id: &str, state: TaskState) -> TaskInfo {
    until(&format!("{id} in state {state}"), || async {
        let info = tasks.find("job", id).await.expect("the store answers")?;
        (info.state == state).then_some(info)
    })
    .await
}
