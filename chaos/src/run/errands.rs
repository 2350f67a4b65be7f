//! The application that this package attacks: tasks whose messages say what the worker is to do.

use async_trait::async_trait;
use delayq_plugin::{
    Backoff, DelayQueueJob, DelayQueuePlugin, DelayQueuePluginBuilder, Result, RetryPolicy,
    TaskContext, TaskResult, TaskSubmitService, TaskWorker, When, WorkerOptions, millis, seconds,
};

use super::application::{AnyError, Application, Place, Sent};
use super::chore::{Chore, Message};

/// The types that every worker process serves.
const TYPES: [&str; 2] = ["alpha", "beta"];
/// Longest delay of a task.
const MAX_DELAY_MS: u64 = 1_500;
/// As many attempts and expired locks as faults may need.
const MANY: u32 = 100_000;
/// Longer than any errand.
const TIMEOUT: std::time::Duration = seconds(40);

/// Mostly quick tasks of two types; some fail, some are given back, a few outlast a lock.
#[derive(Clone, Copy, Debug)]
pub struct Errands {
    /// How long locks last.
    pub lock_ms: u64,
}

/// Does what its messages say.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Diligent;

#[async_trait]
impl TaskWorker for Diligent {
    async fn invoke(&self, message: &str, cx: &TaskContext) -> TaskResult {
        let message: Message = serde_json::from_str(message)?;
        message.chore.perform(cx).await
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

impl Application for Errands {
    async fn plugin(&self, _place: &Place) -> Result<DelayQueuePluginBuilder, AnyError> {
        let builder = DelayQueuePlugin::builder().max_lock_expiries(MANY);
        Ok(TYPES.into_iter().fold(builder, |builder, task_type| {
            builder.worker(task_type, options(TIMEOUT), Diligent)
        }))
    }

    fn job(&self, number: u64) -> Result<DelayQueueJob> {
        let mut dice = fastrand::Rng::with_seed(number);
        let task_type = *dice.choice(&TYPES).unwrap_or(&"alpha");
        let job = Chore::random(&mut dice, self.lock_ms).job(task_type, &mut dice)?;
        let delay = millis(dice.u64(0..=MAX_DELAY_MS));
        Ok(job.id(format!("{number:016x}")).after(delay))
    }

    async fn change(&self, tasks: &TaskSubmitService, sent: Sent<'_>, number: u64) -> Result<()> {
        let mut dice = fastrand::Rng::with_seed(number);
        match dice.u32(0..10) {
            0..5 => {
                tasks.cancel(sent.task_type, sent.id).await?;
            }
            5..8 => {
                let when = When::After(millis(dice.u64(0..MAX_DELAY_MS)));
                tasks.reschedule(sent.task_type, sent.id, when).await?;
            }
            _ => {
                let chore = Chore::Work(dice.u64(0..20));
                let padding = "changed".to_owned();
                let message = Message { chore, padding };
                tasks.update(sent.task_type, sent.id, &message).await?;
            }
        }
        Ok(())
    }
}
