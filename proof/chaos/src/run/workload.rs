//! The application that this package attacks: tasks whose messages say what the worker is to do.

use async_trait::async_trait;
use delayq_core::operate::TypeSettings;
use delayq_plugin::{
    Backoff, DelayQueueJob, DelayQueuePlugin, DelayQueuePluginBuilder, Result, RetryPolicy,
    TaskContext, TaskResult, TaskSubmitService, TaskWorker, When, WorkerOptions, millis, seconds,
};

use super::application::{AnyError, Application, Place, Sent};
use super::task_body::{Message, TaskBody};

/// The types that every worker process serves.
const TYPES: [&str; 2] = ["alpha", "beta"];
/// The one that may have several shards.
const SPLIT: &str = TYPES[1];
/// As many attempts and expired locks as faults may need.
const MANY: u32 = 100_000;
/// Longer than any task body.
const TIMEOUT: std::time::Duration = seconds(40);

/// Mostly quick tasks of two types; some fail, some are given back, a few outlast a lock.
#[derive(Clone, Copy, Debug)]
pub struct Workload {
    mix: Mix,
    /// Longest delay of a task.
    max_delay_ms: u64,
    /// How many shards one of the types has.
    shards: u32,
}

/// What the tasks are like.
#[derive(Clone, Copy, Debug)]
enum Mix {
    /// Some outlast a lock, which lasts so many milliseconds.
    Varied(u64),
    /// Done soon.
    Brief,
}

impl Workload {
    /// `lock_ms` is how long locks last.
    #[must_use]
    pub fn new(lock_ms: u64) -> Self {
        Self {
            mix: Mix::Varied(lock_ms),
            max_delay_ms: 1_500,
            shards: 1,
        }
    }

    /// Due soon and done soon, none outlasts a lock: for a store that lives for a fraction of a
    /// second.
    pub(crate) fn brief() -> Self {
        Self {
            mix: Mix::Brief,
            max_delay_ms: 300,
            shards: 1,
        }
    }

    /// Tasks are due within this time.
    #[must_use]
    pub fn max_delay_ms(self, max_delay_ms: u64) -> Self {
        Self {
            max_delay_ms,
            ..self
        }
    }

    /// Splits one of the types into so many shards.
    #[must_use]
    pub fn shards(self, shards: u32) -> Self {
        Self { shards, ..self }
    }
}

/// Does what its messages say.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Diligent;

#[async_trait]
impl TaskWorker for Diligent {
    async fn invoke(&self, message: &str, cx: &TaskContext) -> TaskResult {
        let message: Message = serde_json::from_str(message)?;
        message.body.perform(cx).await
    }
}

/// Retries come soon, and as often as need be.
pub(crate) fn options(timeout: std::time::Duration) -> WorkerOptions {
    WorkerOptions {
        timeout,
        retry: RetryPolicy {
            max_attempts: MANY,
            backoff: Backoff::Fixed,
            base: millis(50),
            ..RetryPolicy::DEFAULT
        },
        ..WorkerOptions::DEFAULT
    }
}

impl Application for Workload {
    async fn plugin(&self, place: &Place) -> Result<DelayQueuePluginBuilder, AnyError> {
        if self.shards > 1 {
            let split = TypeSettings::default().shards(self.shards);
            let store = &place.store;
            store.configure_type(&SPLIT.parse()?, &split).await?;
        }
        let builder = DelayQueuePlugin::builder().max_lock_expiries(MANY);
        Ok(TYPES.into_iter().fold(builder, |builder, task_type| {
            builder.worker(task_type, options(TIMEOUT), Diligent)
        }))
    }

    fn job(&self, number: u64) -> Result<DelayQueueJob> {
        let mut dice = fastrand::Rng::with_seed(number);
        let task_type = *dice.choice(&TYPES).unwrap_or(&"alpha");
        let body = match self.mix {
            Mix::Varied(lock_ms) => TaskBody::random(&mut dice, lock_ms),
            Mix::Brief => TaskBody::brief(&mut dice),
        };
        let job = body.job(task_type, &mut dice)?;
        let delay = millis(dice.u64(0..=self.max_delay_ms));
        Ok(job.id(format!("{number:016x}")).after(delay))
    }

    async fn change(&self, tasks: &TaskSubmitService, sent: Sent<'_>, number: u64) -> Result<()> {
        let mut dice = fastrand::Rng::with_seed(number);
        match dice.u32(0..10) {
            0..5 => {
                let _ = tasks.cancel(sent.task_type, sent.id).await?;
            }
            5..8 => {
                let when = When::After(millis(dice.u64(0..self.max_delay_ms)));
                let _ = tasks.reschedule(sent.task_type, sent.id, when).await?;
            }
            _ => {
                let body = TaskBody::Work(dice.u64(0..20));
                let padding = "changed".to_owned();
                let message = Message { body, padding };
                let _ = tasks.update(sent.task_type, sent.id, &message).await?;
            }
        }
        Ok(())
    }
}
