//! What an instance is told to do: its one argument, as JSON.

use std::path::PathBuf;
use std::time::Duration;

use delayq_plugin::{
    Backoff, DelayQueueJob, Delivery, FleetLimits, Rate, RetryPolicy, TaskSubmitService,
    WorkerOptions, millis,
};
use serde::{Deserialize, Serialize};

/// One instance: a plugin in a process of its own.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Plan {
    /// Its name, unlike that of any other instance of the test.
    pub name: String,
    /// Its store.
    pub url: String,
    /// The file to which it appends its events.
    pub log: PathBuf,
    /// The task types it works for.
    pub served: Vec<Served>,
    /// The tasks it sends by itself.
    pub load: Option<Load>,
    /// The handlers' poll interval.
    pub poll_ms: u64,
    /// Whether it runs on a current-thread runtime, instead of one with [`Plan::THREADS`] threads.
    pub single_thread: bool,
    /// Grace time of the shutdown at SIGTERM; `None`: it leaves all that to `run_until_signal`.
    pub grace_ms: Option<u64>,
    /// After how many expired locks a task is poison.
    pub max_lock_expiries: u32,
    /// For its random choices.
    pub seed: u64,
}

impl Plan {
    /// Worker threads of an instance that is not single-threaded.
    pub const THREADS: usize = 2;
}

/// A task type or pattern, and the options of its worker.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Served {
    /// The type or pattern.
    pub task_type: String,
    /// How long locks last.
    pub lock_ms: u64,
    /// Most workers at a time.
    pub concurrency: usize,
    /// Attempts in all.
    pub max_attempts: u32,
    /// Whether a task is rather lost than run twice.
    pub at_most_once: bool,
    /// Most tasks at a time in the fleet.
    pub fleet_concurrency: Option<u32>,
    /// Starts a second in the fleet, with the default burst.
    pub fleet_rate: Option<u32>,
}

impl Served {
    /// `task_type` with locks of one second and as many attempts as crashes may need.
    #[must_use]
    pub fn new(task_type: &str) -> Self {
        Self {
            task_type: task_type.to_owned(),
            lock_ms: 1_000,
            concurrency: 128,
            max_attempts: 1_000,
            at_most_once: false,
            fleet_concurrency: None,
            fleet_rate: None,
        }
    }

    /// The options of its worker. Retries come soon.
    #[must_use]
    pub fn options(&self) -> WorkerOptions {
        WorkerOptions {
            lock: millis(self.lock_ms),
            concurrency: self.concurrency,
            retry: RetryPolicy {
                max_attempts: self.max_attempts,
                backoff: Backoff::Fixed,
                base: millis(50),
                ..RetryPolicy::DEFAULT
            },
            delivery: if self.at_most_once {
                Delivery::AtMostOnce
            } else {
                Delivery::AtLeastOnce
            },
            fleet: FleetLimits {
                concurrency: self.fleet_concurrency,
                rate: self.fleet_rate.map(Rate::per_second),
            },
            ..WorkerOptions::DEFAULT
        }
    }
}

/// Tasks that an instance sends until it is told to be quiet.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Load {
    /// The types, one picked for each task.
    pub types: Vec<String>,
    /// How many calls are under way at a time.
    pub senders: usize,
    /// Most tasks of one call.
    pub batch: usize,
    /// How long each sender rests between two calls.
    pub pause_ms: u64,
    /// Longest delay of a task.
    pub max_delay_ms: u64,
}

impl Load {
    /// A few hundred tasks a second, each due within less than half a second.
    #[must_use]
    pub fn of(types: &[&str]) -> Self {
        Self {
            types: types.iter().map(ToString::to_string).collect(),
            senders: 4,
            batch: 5,
            pause_ms: 20,
            max_delay_ms: 400,
        }
    }
}

/// What the worker is to do with a task: the message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Chore {
    /// Succeed after so many milliseconds.
    Work(u64),
    /// Succeed, fail or give the task back after so many milliseconds, as chance will have it.
    Moody(u64),
    /// Succeed after so many milliseconds, but fail at once when told to stop.
    Heed(u64),
    /// Wait until told to stop, then try to end the task like this.
    UntilTold(Outcome),
    /// End the process.
    Abort,
}

impl Chore {
    /// Mostly quick ones, some that fail, a few that outlast a lock of a second.
    #[must_use]
    pub fn random() -> Self {
        match fastrand::u32(0..100) {
            0..2 => Self::Work(1_500),
            2..12 => Self::Work(fastrand::u64(100..400)),
            12..30 => Self::Moody(fastrand::u64(0..20)),
            _ => Self::Work(fastrand::u64(0..20)),
        }
    }

    /// A job of this type to do it.
    ///
    /// # Panics
    /// Never: it has a JSON form.
    pub fn job(self, task_type: &str) -> DelayQueueJob {
        DelayQueueJob::new(task_type, &self).expect("a chore has a JSON form")
    }

    /// Sends it as task `id` of type `job`, due after `delay`.
    ///
    /// # Panics
    /// When it is not accepted.
    pub async fn send(self, service: &TaskSubmitService, id: &str, delay: Duration) {
        let receipt = service.send(self.job("job").id(id).after(delay)).await;
        receipt.expect("the task is accepted");
    }

    /// How long the worker is busy before it decides.
    #[must_use]
    pub fn takes(self) -> Duration {
        match self {
            Self::Work(ms) | Self::Moody(ms) | Self::Heed(ms) => millis(ms),
            Self::UntilTold(_) => Duration::MAX,
            Self::Abort => Duration::ZERO,
        }
    }
}

/// What the worker returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// `Ok`.
    Done,
    /// An error that is retried.
    Retry,
    /// The task, given back.
    Release,
    /// An error that is not retried.
    Dead,
}
