//! The worker of the scenarios: its message says what to do.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError, mpsc};
use std::time::Duration;

use delayq_plugin::{
    Backoff, Clock, DelayQueueJob, Error, Json, Result, RetryPolicy, SystemClock, TaskContext,
    TaskError, TaskResult, TaskSubmitService, TaskWorker, WorkerOptions, async_trait,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::job::span;
use crate::says::say;

/// The message of a task.
#[derive(Debug, Deserialize, Serialize)]
struct Order {
    r#do: String,
    with: Option<Value>,
    error: Option<String>,
    times: Option<u32>,
    r#for: Option<String>,
    after: Option<String>,
    r#type: Option<String>,
    message: Option<Value>,
    id: Option<String>,
}

/// What the workers of this process share.
#[derive(Debug)]
pub(crate) struct Shared {
    tasks: TaskSubmitService,
    pub(crate) is_stopping: AtomicBool,
    /// How often each task was given back.
    given_back: Mutex<BTreeMap<String, u32>>,
}

impl Shared {
    pub(crate) fn new(tasks: TaskSubmitService) -> Self {
        let is_stopping = AtomicBool::new(false);
        Self {
            tasks,
            is_stopping,
            given_back: Mutex::default(),
        }
    }

    pub(crate) fn script(self: &Arc<Self>) -> Script {
        Script(Arc::clone(self))
    }
}

/// The worker of a type.
#[derive(Debug)]
pub(crate) struct Script(Arc<Shared>);

/// Tells of the end of a handler, also of one that is dropped.
struct End<'a> {
    id: &'a str,
    how: &'static str,
}

impl Drop for End<'_> {
    fn drop(&mut self) {
        let at = SystemClock.now().as_millis();
        say(&json!({"event": "end", "id": self.id, "how": self.how, "at": at}));
    }
}

#[async_trait]
impl TaskWorker for Script {
    async fn invoke(&self, message: &str, cx: &TaskContext) -> TaskResult {
        let Json(order) = Json::<Order>::from_message(message.as_bytes())?;
        let whole: Value = serde_json::from_str(message).unwrap_or_default();
        self.begins(&whole, cx).await;
        let mut end = End {
            id: cx.id().as_str(),
            how: "raised",
        };
        let work = self.work(&order, &whole, cx);
        tokio::pin!(work);
        let result = tokio::select! {
            biased;
            () = cx.cancelled() => {
                self.stopped(cx).await;
                // It may heed the signal, or not.
                work.await
            }
            result = &mut work => result,
        };
        if result.is_ok() {
            end.how = "returned";
        }
        result
    }
}

impl Script {
    async fn begins(&self, message: &Value, cx: &TaskContext) {
        let mut last_error = None;
        if cx.is_repeat() {
            // The context has no errors of earlier attempts.
            let found = self
                .0
                .tasks
                .find(cx.task_type().as_str(), cx.id().as_str())
                .await;
            last_error = found
                .ok()
                .flatten()
                .and_then(|task| task.history.last_error);
        }
        say(&json!({
            "event": "start",
            "type": cx.task_type().as_str(),
            "id": cx.id().as_str(),
            "attempt": cx.attempt(),
            "fence": cx.fence(),
            "headers": cx.headers(),
            "last_error": last_error,
            "at": SystemClock.now().as_millis(),
            "message": message,
        }));
    }

    /// The context has one signal: the store knows whether somebody has cancelled the task.
    async fn stopped(&self, cx: &TaskContext) {
        if self.0.is_stopping.load(Ordering::SeqCst) {
            return;
        }
        let found = self
            .0
            .tasks
            .find(cx.task_type().as_str(), cx.id().as_str())
            .await;
        let is_cancelled = found
            .ok()
            .flatten()
            .is_some_and(|task| task.cancel_requested);
        let event = if is_cancelled { "cancelled" } else { "lost" };
        say(&json!({"event": event, "id": cx.id().as_str()}));
    }

    async fn work(&self, order: &Order, whole: &Value, cx: &TaskContext) -> TaskResult {
        let text = |part: &Option<String>| part.clone().unwrap_or_default();
        let error = text(&order.error);
        let times = order.times.unwrap_or(0);
        match order.r#do.as_str() {
            "reply" => Ok(cx.reply(&order.with)?),
            "echo" => Ok(cx.reply(whole)?),
            "fail" if cx.attempt() <= times => Err(TaskError::retry(error)),
            "retry_after" if cx.attempt() <= times => {
                Err(TaskError::retry_after(span(&text(&order.after))?, error))
            }
            "dead" => Err(TaskError::dead(error)),
            "later" if self.gives_back(cx.id().as_str(), times) => {
                Err(TaskError::release(span(&text(&order.after))?))
            }
            "sleep" => tokio::select! {
                () = tokio::time::sleep(span(&text(&order.r#for))?) => Ok(()),
                () = cx.cancelled() => Err(TaskError::release(Duration::ZERO)),
            },
            "block" => {
                let span = span(&text(&order.r#for))?;
                let blocked = tokio::task::spawn_blocking(move || block(span));
                Ok(blocked.await?)
            }
            "then" => Ok(cx.then(follow_up(order)?)?),
            "send" => {
                self.0.tasks.send(follow_up(order)?).await?;
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn gives_back(&self, id: &str, times: u32) -> bool {
        let mut given_back = self
            .0
            .given_back
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let count = given_back.entry(id.to_owned()).or_default();
        *count += 1;
        *count <= times
    }
}

fn follow_up(order: &Order) -> Result<DelayQueueJob> {
    let task_type = order.r#type.clone().unwrap_or_default();
    let job = DelayQueueJob::new(task_type, &order.message)?;
    Ok(match &order.id {
        Some(id) => job.id(id),
        None => job,
    })
}

/// Blocks its thread, whatever happens.
fn block(span: Duration) {
    let (keep, wait) = mpsc::channel::<()>();
    // Nothing is ever sent.
    let _ = wait.recv_timeout(span);
    drop(keep);
}

/// The options of a worker, from the fields of `work`.
pub(crate) fn options(line: &Value) -> Result<WorkerOptions> {
    let number = |of: &Value, name: &str| of.get(name).and_then(Value::as_u64);
    let duration = |of: &Value, name: &str| {
        let text = of.get(name).and_then(Value::as_str);
        text.map(span).transpose()
    };
    let mut options = WorkerOptions {
        concurrency: 1,
        ..WorkerOptions::DEFAULT
    };
    if let Some(concurrency) = number(line, "concurrency") {
        let concurrency = usize::try_from(concurrency);
        options.concurrency = concurrency.map_err(|_| Error::invalid("line", "concurrency"))?;
    }
    if let Some(lock) = duration(line, "lock")? {
        options.lock = lock;
    }
    if let Some(retry) = line.get("retry") {
        let given = number(retry, "max").and_then(|max| u32::try_from(max).ok());
        options.retry.max_attempts = given.unwrap_or(RetryPolicy::DEFAULT.max_attempts);
        options.retry.base = duration(retry, "wait")?.unwrap_or(RetryPolicy::DEFAULT.base);
        options.retry.cap = duration(retry, "max_wait")?.unwrap_or(RetryPolicy::DEFAULT.cap);
        if retry.get("fixed").and_then(Value::as_bool) == Some(true) {
            options.retry.backoff = Backoff::Fixed;
        }
    }
    Ok(options)
}
