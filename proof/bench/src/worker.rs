//! The workers: one that only counts, one that reads its message as well, and one that looks at the
//! clock.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use delayq_plugin::{Json, TaskContext, TaskResult, TaskWorker};
use tokio::sync::Notify;
use tokio::time::timeout;

use crate::Failure;
use crate::lateness::Lateness;
use crate::load::Message;
use crate::wall::now_us;

/// How long the last task may keep everybody waiting.
const PATIENCE: Duration = Duration::from_mins(2);

/// Counts tasks, and tells when there were enough.
#[derive(Clone, Debug)]
pub(crate) struct Counter {
    seen: Arc<AtomicUsize>,
    enough: usize,
    reached: Arc<Notify>,
}

impl Counter {
    pub(crate) fn up_to(enough: usize) -> Self {
        Self {
            seen: Arc::default(),
            enough,
            reached: Arc::default(),
        }
    }

    pub(crate) fn count(&self) {
        if self.seen.fetch_add(1, Ordering::Relaxed) + 1 == self.enough {
            self.reached.notify_one();
        }
    }

    pub(crate) async fn wait(&self) -> Result<(), Failure> {
        let waited = timeout(PATIENCE, self.reached.notified()).await;
        waited.map_err(|_| {
            let seen = self.seen.load(Ordering::Relaxed);
            format!("{seen} of {} tasks ran within {PATIENCE:?}", self.enough).into()
        })
    }
}

#[async_trait]
impl TaskWorker for Counter {
    async fn invoke(&self, _message: &str, _cx: &TaskContext) -> TaskResult {
        self.count();
        Ok(())
    }
}

/// A typed worker that does nothing: reads its message, and counts.
#[derive(Clone, Debug)]
pub(crate) struct Typed(pub(crate) Counter);

#[async_trait]
impl TaskWorker for Typed {
    async fn invoke(&self, message: &str, _cx: &TaskContext) -> TaskResult {
        let Json(_read) = Json::<Message>::from_message(message.as_bytes())?;
        self.0.count();
        Ok(())
    }
}

/// Notes how late each task starts, on the clock of this machine, which is that of the store, too.
#[derive(Clone, Debug)]
pub(crate) struct Stopwatch {
    lateness: Arc<Mutex<Lateness>>,
    pub(crate) counter: Counter,
}

impl Stopwatch {
    pub(crate) fn new(lateness: Lateness, tasks: usize) -> Self {
        Self {
            lateness: Arc::new(Mutex::new(lateness)),
            counter: Counter::up_to(tasks),
        }
    }

    pub(crate) fn lateness(&self) -> Lateness {
        self.lateness
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

#[async_trait]
impl TaskWorker for Stopwatch {
    async fn invoke(&self, _message: &str, cx: &TaskContext) -> TaskResult {
        let started_us = now_us();
        let late_us = started_us - cx.due_at().as_millis() * 1_000;
        self.lateness
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .record(late_us);
        self.counter.count();
        Ok(())
    }
}
