//! Explains why a task has not started, or started late.

use std::time::Duration;

use delayq_plugin::store::{MAX_INSTANCES, serving};
use delayq_plugin::{
    ClockSkew, InstanceInfo, Result, TaskId, TaskInfo, TaskState, TaskSubmitService, TaskType,
    Timestamp, WaitsFor,
};
use serde::Serialize;

mod cause;
mod pace;
mod sentence;

pub use cause::{Cause, Holder, OldestRun};
pub use pace::Pace;

use crate::look::Look;
use crate::span;

/// Maximum number of running tasks read to find the oldest.
const RUNNING_READ: usize = 128;

/// Maximum number of due tasks counted to find those before a task. SQLite counts by walking an
/// index, two to four million entries a second.
const MOST_COUNTED: u64 = 10_000;

/// The reason for a task's state: one sentence, and the figures behind it.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Explanation {
    /// The type.
    pub task_type: TaskType,
    /// The task.
    pub id: TaskId,
    /// Its state; `None` if it is unknown.
    pub state: Option<TaskState>,
    /// The answer, in one English sentence without line breaks.
    pub sentence: String,
    /// The cause, with its figures. In JSON its fields are flattened into this object.
    #[serde(flatten)]
    pub cause: Cause,
    /// How long it has been due, or how long after its due time it started. `None` if it is not
    /// due, or if that is not known: for a running task it is only known for the first attempt.
    #[serde(rename = "late_ms", serialize_with = "span::optional_millis")]
    pub late: Option<Duration>,
    /// The store's time at the answer.
    pub now: Timestamp,
    /// The difference between the clocks of the store and of this host, if above 500 ms.
    pub clock_skew: Option<ClockSkew>,
}

/// The facts read before the conclusion.
#[derive(Debug)]
pub(crate) struct Subject {
    task_type: TaskType,
    id: TaskId,
    pub(crate) task: Option<TaskInfo>,
    pub(crate) look: Look,
    instances: Vec<InstanceInfo>,
}

/// Explains why a task has not started, or started late. Takes three to six calls to the store,
/// none of which reads more than 10,000 entries of an index: the task, the counts of its type, the
/// instances, and for a due task the running tasks (up to 128), the number of tasks before it, and
/// the figures of the last hour, which tell how long a backlog takes.
///
/// The answer is what the store knows now. The store does not keep why a started task was late,
/// only how late it was. It does not know the limits and slots of a single process either: if
/// nothing in the store holds a task back, the answer is [`Cause::Backlog`] or [`Cause::Next`].
///
/// # Errors
/// `InvalidName` for an invalid type or id, and the store's errors.
pub async fn explain(tasks: &TaskSubmitService, task_type: &str, id: &str) -> Result<Explanation> {
    let subject = Subject::read(tasks, task_type, id).await?;
    subject.explanation(tasks).await
}

impl Subject {
    pub(crate) async fn read(tasks: &TaskSubmitService, task_type: &str, id: &str) -> Result<Self> {
        let instances = tasks.instances().await?;
        let look = Look::at(tasks, task_type).await?;
        let task = tasks.find(task_type, id).await?;
        Ok(Self {
            task_type: TaskType::new(task_type)?,
            id: TaskId::new(id)?,
            task,
            look,
            instances,
        })
    }

    pub(crate) async fn explanation(&self, tasks: &TaskSubmitService) -> Result<Explanation> {
        let cause = match &self.task {
            None => self.unknown(tasks).await?,
            Some(task) if task.state == TaskState::Scheduled => self.waits(tasks, task).await?,
            Some(task) => self.started(task),
        };
        let mut explained = Explanation {
            task_type: self.task_type.clone(),
            id: self.id.clone(),
            state: self.task.as_ref().map(|task| task.state),
            sentence: String::new(),
            late: self.task.as_ref().and_then(|task| self.late(task)),
            cause,
            now: self.look.stats.now,
            clock_skew: self.look.skew,
        };
        explained.sentence = sentence::sentence(&explained);
        Ok(explained)
    }

    async fn unknown(&self, tasks: &TaskSubmitService) -> Result<Cause> {
        let types = tasks.types().await?;
        Ok(Cause::Unknown {
            is_listed: types.contains(&self.task_type),
            remembered_since: self.look.stats.remembered_since,
        })
    }

    fn late(&self, task: &TaskInfo) -> Option<Duration> {
        match task.state {
            TaskState::Scheduled => {
                let late = self.look.stats.now.since(task.at);
                (late > Duration::ZERO).then_some(late)
            }
            TaskState::Running => Some(task.started_at?.since(task.attempt_due_at?)),
            _ => None,
        }
    }

    /// The reason why a scheduled task waits.
    async fn waits(&self, tasks: &TaskSubmitService, task: &TaskInfo) -> Result<Cause> {
        let now = self.look.stats.now;
        let by_time = if task.at > now {
            WaitsFor::Delay
        } else {
            WaitsFor::Claim
        };
        let waits_for = task.waits_for.unwrap_or(by_time);
        let serving = self.serving();
        let is_ahead = matches!(
            waits_for,
            WaitsFor::Delay | WaitsFor::Retry | WaitsFor::Release | WaitsFor::Requeue
        );
        match waits_for {
            _ if is_ahead => Ok(self.ahead(task, waits_for)),
            WaitsFor::Pause { until } => Ok(Cause::Paused { until }),
            _ if serving == 0 => Ok(Cause::Unserved {
                instances: self.instances.len(),
            }),
            WaitsFor::Concurrency => Ok(Cause::ConcurrencyFull {
                limit: self.look.stats.fleet_concurrency,
                running: self.look.stats.running,
                oldest: self.oldest(tasks).await?,
            }),
            WaitsFor::Rate => Ok(Cause::RateReached {
                limit: self.look.stats.fleet_rate,
            }),
            _ => match self.look.skew {
                // Handlers of this host hold back tasks that are not due by its clock.
                Some(skew @ ClockSkew::StoreAhead(_)) if task.at > self.look.host_now => {
                    Ok(Cause::ClocksDiffer {
                        due_at: task.at,
                        skew,
                    })
                }
                _ => self.in_line(tasks, task).await,
            },
        }
    }

    /// The cause for a task whose due time is ahead, by the store's clock.
    fn ahead(&self, task: &TaskInfo, from: WaitsFor) -> Cause {
        let (due_at, wait) = (task.at, task.at.since(self.look.stats.now));
        match (from, self.look.skew) {
            (_, Some(skew @ ClockSkew::StoreBehind(_))) if due_at <= self.look.host_now => {
                Cause::ClocksDiffer { due_at, skew }
            }
            (WaitsFor::Retry, _) => Cause::Retry {
                due_at,
                wait,
                attempt: task.attempt,
                failed_at: task.errors.first().map(|error| error.at),
                error: task.history.last_error.clone(),
            },
            _ => Cause::NotDue { due_at, wait, from },
        }
    }

    /// The number of announced instances that may serve the type.
    fn serving(&self) -> usize {
        serving(&self.instances, &self.task_type)
    }

    async fn oldest(&self, tasks: &TaskSubmitService) -> Result<Option<OldestRun>> {
        let task_type = self.task_type.as_str();
        let running = tasks.list(task_type, TaskState::Running, None, RUNNING_READ);
        let runs = running.await?.tasks.into_iter().filter_map(|task| {
            let since = task.started_at?;
            Some(OldestRun { id: task.id, since })
        });
        Ok(runs.min_by_key(|run| run.since))
    }

    /// The cause for a due task that nothing in the store holds back.
    async fn in_line(&self, tasks: &TaskSubmitService, task: &TaskInfo) -> Result<Cause> {
        let stats = &self.look.stats;
        let counted = self.count_before(tasks, task).await?;
        let ahead = counted.unwrap_or_else(|| stats.due.saturating_sub(1));
        let oldest = match stats.running {
            0 => None,
            _ => self.oldest(tasks).await?,
        };
        if ahead == 0 {
            return Ok(Cause::Next {
                instances: self.serving(),
                running: stats.running,
                oldest,
            });
        }
        let pace = Pace::present(tasks, &self.task_type, stats.now).await?;
        Ok(Cause::Backlog {
            ahead,
            is_exact: counted.is_some(),
            running: stats.running,
            oldest,
            pace,
            wait: pace.and_then(|pace| pace.time_for(ahead)),
        })
    }

    /// The number of tasks due before it; `None` if there are too many to count.
    async fn count_before(
        &self,
        tasks: &TaskSubmitService,
        task: &TaskInfo,
    ) -> Result<Option<u64>> {
        let stats = &self.look.stats;
        let Some(first) = stats.next_due.filter(|first| *first < task.at) else {
            return Ok(Some(0));
        };
        if stats.due > MOST_COUNTED {
            return Ok(None);
        }
        let counted = tasks.due_histogram(self.task_type.as_str(), first, task.at, 1);
        match counted.await {
            Ok(counts) => Ok(counts.first().copied()),
            Err(delayq_plugin::Error::Unsupported(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The cause for a task that is running or has ended.
    fn started(&self, task: &TaskInfo) -> Cause {
        let (at, attempt) = (task.at, task.attempt);
        let error = task.history.last_error.clone();
        match task.state {
            TaskState::Running => self.running(task),
            TaskState::Dead => Cause::Dead { at, attempt, error },
            TaskState::Cancelled => Cause::Cancelled { at },
            TaskState::Expired => Cause::Expired { at },
            _ => Cause::Done { at, error },
        }
    }

    fn running(&self, task: &TaskInfo) -> Cause {
        let holder = task.holder.as_deref().map(|one| self.holder(one));
        if let Some(holder) = &holder
            && holder.host.is_none()
            && self.instances.len() < MAX_INSTANCES
        {
            return Cause::LockOrphaned {
                holder: holder.instance.clone(),
                until: task.at,
                is_expired: task.at <= self.look.stats.now,
                attempt: task.attempt,
            };
        }
        Cause::Running {
            since: task.started_at,
            attempt: task.attempt,
            holder,
            cancel_requested: task.cancel_requested,
        }
    }

    /// The instance with this short identity, with its host and process if it is announced.
    pub(crate) fn holder(&self, short: &str) -> Holder {
        let mut instances = self.instances.iter();
        let announced = instances.find(|one| one.id.short() == short);
        Holder {
            instance: short.to_owned(),
            host: announced.map(|one| one.host.clone()),
            pid: announced.map(|one| one.pid),
        }
    }
}
