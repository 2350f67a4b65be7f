//! A job: a task with a number of tries and attributes.

use std::collections::BTreeMap;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use delayq_ops::{LMSTFY_ATTRIBUTE, LMSTFY_TRIES};
use delayq_plugin::store::NewTask;
use delayq_plugin::{Expiry, TaskInfo, TaskState, Timestamp};
use delayq_service::pull::{Handover, Pulled};
use serde::Serialize;

use super::names::{QueueName, age_ms};

/// The shortest delay of a request.
const A_SECOND: Duration = Duration::from_secs(1);
/// The tries of a task that was not sent through this API.
const FOREIGN_TRIES: u32 = 3;

/// A job in an answer. The fields have the order of the original.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Job {
    attributes: Option<BTreeMap<String, String>>,
    /// In base64.
    data: String,
    pub(super) elapsed_ms: i64,
    #[serde(rename = "job_id")]
    id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    msg: Option<&'static str>,
    namespace: String,
    pub(super) queue: String,
    remain_tries: u32,
    ttl: u64,
    /// True if the job had to wait for its time.
    #[serde(skip)]
    pub(super) was_timed: bool,
}

impl Job {
    /// A claimed job. With `is_frozen`, this attempt does not count.
    fn claimed(queue: &QueueName, pulled: &Pulled, is_frozen: bool, now: Timestamp) -> Self {
        let task = &pulled.task;
        let used = task.attempt - u32::from(is_frozen);
        Self {
            msg: Some("new job"),
            remain_tries: tries(&task.headers).saturating_sub(used),
            ttl: seconds_left(task.expires_at, now),
            was_timed: task.attempt > 1 || task.due_at.since(task.submitted_at) >= A_SECOND,
            ..Self::of(
                queue,
                task.lock.id.as_str(),
                &task.message,
                &task.headers,
                now,
            )
        }
    }

    /// A job for display.
    pub(super) fn seen(queue: &QueueName, info: &TaskInfo, now: Timestamp) -> Self {
        let is_dead = info.state == TaskState::Dead;
        let message = info.message.as_deref().unwrap_or_default();
        let mut job = Self::of(queue, info.id.as_str(), message, &info.headers, now);
        if !is_dead {
            job.ttl = seconds_left(info.expires_at, now);
        }
        job
    }

    /// Sets the number of remaining tries.
    pub(super) fn with_tries(self, info: &TaskInfo) -> Self {
        let remain_tries = tries_left(info);
        Self {
            remain_tries,
            ..self
        }
    }

    fn of(
        queue: &QueueName,
        id: &str,
        message: &[u8],
        headers: &BTreeMap<String, String>,
        now: Timestamp,
    ) -> Self {
        let attributes: BTreeMap<_, _> = headers
            .iter()
            .filter_map(|(name, value)| {
                let name = name.strip_prefix(LMSTFY_ATTRIBUTE)?;
                Some((name.to_owned(), value.clone()))
            })
            .collect();
        Self {
            attributes: (!attributes.is_empty()).then_some(attributes),
            data: STANDARD.encode(message),
            elapsed_ms: age_ms(id, now),
            id: id.to_owned(),
            msg: None,
            namespace: queue.namespace.clone(),
            queue: queue.queue.clone(),
            remain_tries: 0,
            ttl: 0,
            was_timed: false,
        }
    }
}

/// Stores the number of tries and the attributes in a task's headers.
pub(super) fn describe(task: &mut NewTask, tries: u32, attributes: &BTreeMap<String, String>) {
    task.headers
        .insert(LMSTFY_TRIES.to_owned(), tries.to_string());
    for (name, value) in attributes {
        task.headers
            .insert(format!("{LMSTFY_ATTRIBUTE}{name}"), value.clone());
    }
}

/// The number of tries of a task.
fn tries(headers: &BTreeMap<String, String>) -> u32 {
    let tries = headers
        .get(LMSTFY_TRIES)
        .and_then(|tries| tries.parse().ok());
    tries.unwrap_or(FOREIGN_TRIES)
}

/// The number of remaining tries.
pub(super) fn tries_left(info: &TaskInfo) -> u32 {
    tries(&info.headers).saturating_sub(info.attempt)
}

/// Returns true if a job has expired. A dead job never expires.
pub(super) fn is_expired(info: &TaskInfo, now: Timestamp) -> bool {
    let is_over = info.expires_at.is_some_and(|end| end <= now);
    is_over && info.state != TaskState::Dead
}

/// Seconds until `end`, rounded up; 0 if there is no end.
fn seconds_left(end: Option<Timestamp>, now: Timestamp) -> u64 {
    end.map_or(0, |end| {
        let left = end.since(now);
        left.as_secs() + u64::from(left.subsec_nanos() > 0)
    })
}

/// The expiry of a job due after `delay`. With a `ttl` of zero it never expires.
pub(super) fn lifetime(ttl: Duration, delay: Duration) -> Option<Expiry> {
    let after_due = ttl.saturating_sub(delay).max(Duration::from_millis(1));
    (!ttl.is_zero()).then_some(Expiry::AfterDue(after_due))
}

/// The options of a new job.
#[derive(Clone, Debug)]
pub(super) struct NewJob {
    pub(super) delay: Duration,
    /// Zero means for ever.
    pub(super) ttl: Duration,
    pub(super) tries: u32,
    pub(super) attributes: BTreeMap<String, String>,
}

/// A consumer's request for jobs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Appetite {
    pub(super) count: usize,
    pub(super) ttr: Duration,
    /// True if the attempt does not count.
    pub(super) is_frozen: bool,
}

/// Claimed jobs on the way to a client. If dropped before delivery, they are released, which costs
/// no attempt.
#[derive(Debug)]
pub(super) struct Taken {
    handover: Handover,
    queues: Vec<QueueName>,
}

impl Taken {
    pub(super) fn new(handover: Handover, queues: &[QueueName]) -> Self {
        let queues = queues.to_vec();
        Self { handover, queues }
    }

    /// Returns true if nothing was claimed.
    pub(super) fn is_nothing(&self) -> bool {
        self.handover.tasks().is_empty()
    }

    /// Jobs that have used all their tries.
    pub(super) fn spent(&self) -> impl Iterator<Item = &Pulled> {
        self.handover.tasks().iter().filter(|one| is_spent(one))
    }

    /// The number of jobs for the client.
    pub(super) fn count(&self) -> usize {
        self.handover.tasks().len() - self.spent().count()
    }

    /// The jobs for the client. With `is_frozen`, the attempt does not count.
    pub(super) fn jobs(&self, is_frozen: bool, now: Timestamp) -> Vec<Job> {
        let left = self.handover.tasks().iter().filter(|one| !is_spent(one));
        left.filter_map(|pulled| {
            let is_its = |queue: &&QueueName| {
                queue
                    .task_type()
                    .is_ok_and(|own| own == *pulled.task_type())
            };
            let queue = self.queues.iter().find(is_its)?;
            Some(Job::claimed(queue, pulled, is_frozen, now))
        })
        .collect()
    }

    /// Marks the jobs as delivered. From then on they only come back when their locks expire.
    pub(super) fn delivered(self) -> Vec<Pulled> {
        let all = self.handover.delivered();
        all.into_iter().filter(|one| !is_spent(one)).collect()
    }
}

/// Returns true if earlier attempts have used all tries.
fn is_spent(pulled: &Pulled) -> bool {
    pulled.task.attempt > tries(&pulled.task.headers)
}
