//! Message of a watcher: the members it looks at, and its position among them.

use std::collections::BTreeSet;
use std::time::Duration;

use delayq_core::{
    DelayQueueJob, Error, NewTask, Result, TaskId, TaskInfo, TaskState, TaskType, Timestamp, hours,
    minutes, seconds,
};
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::Xxh3;

use super::completion::Completion;
use super::members::{Members, generated_id};
use super::{BATCH_TYPE, BatchEnd};

/// The version of the message format that is written, and the newest one that can be read.
const VERSION: u32 = 1;
/// Shortest and longest wait between two looks at a member that may end at any time.
const WAITS: (Duration, Duration) = (seconds(1), seconds(10));
/// Limits on the longest wait for a member that is due later. That wait is a tenth of the time
/// left, as the member may be cancelled or run early.
const MAX_WAITS: (Duration, Duration) = (minutes(1), hours(1));

/// A batch that is waiting. Stored as JSON, a line feed, and the message of the completion.
#[derive(Serialize, Deserialize)]
pub(crate) struct Watch {
    #[serde(rename = "v")]
    version: u32,
    /// A hash of the batch as it was sent, to tell a repeated send from another batch of the same
    /// name.
    fingerprint: String,
    /// Counts of the members before the watcher's position.
    pub(crate) counts: BatchEnd,
    /// The remaining members.
    members: Members,
    completion: Completion,
    #[serde(default, skip_serializing_if = "is_false")]
    waits_for_dead: bool,
    #[serde(default, skip_serializing_if = "is_false")]
    pub(crate) is_cancelled: bool,
    /// The time of the first look.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    since: Option<Timestamp>,
    #[serde(skip)]
    message: Vec<u8>,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde asks for a reference"
)]
fn is_false(flag: &bool) -> bool {
    !*flag
}

impl Watch {
    /// The watcher of the members in `new`, with their completion.
    pub(crate) fn new(
        new: NewMembers<'_>,
        completion: NewTask,
        waits_for_dead: bool,
    ) -> Result<Self> {
        let NewMembers {
            name,
            members,
            mut hash,
            total,
        } = new;
        add(&mut hash, completion.task_type.as_str().as_bytes());
        add(&mut hash, &completion.message);
        add(&mut hash, &[u8::from(waits_for_dead)]);
        let fingerprint = format!("{:032x}", hash.digest128());
        let id = TaskId::new(format!("{name}+{fingerprint}"))?;
        let (completion, message) = Completion::new(completion, id);
        Ok(Self {
            version: VERSION,
            fingerprint,
            counts: BatchEnd::new(name.as_str(), total as u64),
            members,
            completion,
            waits_for_dead,
            is_cancelled: false,
            since: None,
            message,
        })
    }

    /// The watcher with this message; `None` if a newer release has written it.
    pub(crate) fn read(message: &[u8]) -> Result<Option<Self>> {
        #[derive(Deserialize)]
        struct BatchHead {
            v: u32,
        }

        let end = message.iter().position(|byte| *byte == b'\n');
        let (head, message) = message.split_at(end.unwrap_or(message.len()));
        let unreadable = |error| Error::invalid("watcher of a batch", format!("{error}"));
        let BatchHead { v } = serde_json::from_slice(head).map_err(unreadable)?;
        if v > VERSION {
            return Ok(None);
        }
        let watch: Self = serde_json::from_slice(head).map_err(unreadable)?;
        Ok(Some(Self {
            message: message.get(1..).unwrap_or_default().to_vec(),
            ..watch
        }))
    }

    /// The watcher's own task.
    pub(crate) fn job(&self) -> Result<DelayQueueJob> {
        let mut message = serde_json::to_vec(self).map_err(Error::serialize)?;
        message.push(b'\n');
        message.extend_from_slice(&self.message);
        let job = DelayQueueJob::raw(BATCH_TYPE, message).id(self.counts.name.as_str());
        Ok(job.keep().passed_middleware())
    }

    /// The completion of the batch, once the batch has ended.
    pub(crate) fn completion_job(&self) -> Result<DelayQueueJob> {
        self.completion.job(&self.message, &self.counts)
    }

    /// The completion with the longest counts possible.
    pub(crate) fn widest_completion_job(&self) -> Result<DelayQueueJob> {
        let mut end = self.counts.clone();
        let total = end.total;
        (end.done, end.dead, end.cancelled) = (total, total, total);
        (end.expired, end.forgotten) = (total, total);
        self.completion.job(&self.message, &end)
    }

    /// The types of the members that may not have ended, and of the completion.
    pub(crate) fn types(&self) -> BTreeSet<TaskType> {
        let own = self.completion.task_type.clone();
        self.members.types().cloned().chain([own]).collect()
    }

    /// The type and id of the completion.
    pub(crate) fn completion(&self) -> (&TaskType, &TaskId) {
        (&self.completion.task_type, &self.completion.id)
    }

    /// True if both watch the same batch, whatever their positions.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        self.fingerprint == other.fingerprint
    }

    /// The same batch, which is to end without its completion.
    pub(crate) fn cancelled(self) -> Self {
        Self {
            is_cancelled: true,
            ..self
        }
    }

    /// The first member that has not been looked at or had not ended.
    pub(crate) fn first(&self) -> Result<Option<(TaskType, TaskId)>> {
        self.members.first(&self.counts.name)
    }

    /// Looks at the first member. Returns true if it was counted and the position moved on.
    pub(crate) fn pass(&mut self, member: Option<&TaskInfo>) -> bool {
        let state = member.map(|member| member.state);
        if self.waits_for_dead && state == Some(TaskState::Dead) {
            return false;
        }
        let has_ended = self.counts.count(state);
        if has_ended {
            self.members.remove_first();
        }
        has_ended
    }

    /// Moves on past the first member, whatever its state.
    pub(crate) fn skip(&mut self) {
        self.members.remove_first();
    }

    /// The wait before the next look at this member, at `now`, for a watcher that was sent at
    /// `submitted_at`.
    pub(crate) fn wait(
        &mut self,
        member: &TaskInfo,
        now: Timestamp,
        submitted_at: Timestamp,
    ) -> Duration {
        let (shortest, longest) = WAITS;
        let since = *self.since.get_or_insert(submitted_at);
        let wait = (now.since(since) / 10).clamp(shortest, longest);
        if member.state != TaskState::Scheduled || member.at <= now {
            return wait;
        }
        let (due_in, (least, most)) = (member.at.since(now), MAX_WAITS);
        let max_wait = (due_in / 10).clamp(least, most);
        due_in.saturating_add(shortest).clamp(wait, max_wait)
    }
}

/// The members of a batch that is about to be sent.
pub(crate) struct NewMembers<'a> {
    name: &'a TaskId,
    members: Members,
    hash: Xxh3,
    total: usize,
}

impl<'a> NewMembers<'a> {
    pub(crate) fn of(name: &'a TaskId) -> Self {
        let mut hash = Xxh3::new();
        add(&mut hash, name.as_str().as_bytes());
        Self {
            name,
            members: Members::default(),
            hash,
            total: 0,
        }
    }

    /// The next member, with its id.
    pub(crate) fn named(&self, job: DelayQueueJob) -> DelayQueueJob {
        if job.has_generated_id() {
            return job.id(generated_id(self.name.as_str(), self.total));
        }
        job
    }

    /// Adds the next member, as it is sent.
    pub(crate) fn push(&mut self, task: NewTask) {
        for part in [task.task_type.as_str(), task.id.as_str()] {
            add(&mut self.hash, part.as_bytes());
        }
        add(&mut self.hash, &task.message);
        let (name, index) = (self.name.as_str(), self.total);
        self.members.push(name, index, task.task_type, task.id);
        self.total = self.total.saturating_add(1);
    }
}

fn add(hash: &mut Xxh3, part: &[u8]) {
    hash.update(&part.len().to_le_bytes());
    hash.update(part);
}

#[cfg(test)]
mod tests {
    use delayq_core::Limits;

    use super::*;

    /// Stored text: it must stay readable, and so must the text written from it.
    const STORED: &str = r#"{"v":1,"fingerprint":"f0","counts":{"name":"b","total":9,"done":3,"dead":1,"cancelled":0,"expired":0,"forgotten":2},"members":[{"type":"mail","indexes":[6,9]}],"completion":{"type":"report","id":"b+f0","headers":{"by":"me"},"when":{"after":500},"expiry":{"at":1795503600000}},"waits_for_dead":true,"since":1795503500000}"#;

    #[test]
    fn a_watch_is_read_as_it_is_written() {
        let now = Timestamp::from_millis(1_795_503_550_000);
        let task = |job: DelayQueueJob| job.into_task(&Limits::default(), now).unwrap();
        let stored = [STORED.as_bytes(), b"\nfirst line\n\xff"].concat();
        let watch = Watch::read(&stored).unwrap().unwrap();
        assert_eq!(task(watch.job().unwrap()).message, stored);
        let report = task(watch.completion_job().unwrap());
        assert_eq!(report.message, b"first line\n\xff");
        assert_eq!(
            (report.task_type.as_str(), report.id.as_str()),
            ("report", "b+f0")
        );
        assert_eq!(report.headers["by"], "me");
        assert_eq!(watch.first().unwrap().unwrap().1.as_str(), "b/6");
    }

    #[test]
    fn a_watch_of_a_newer_release_is_left_to_it_and_nonsense_is_an_error() {
        assert!(matches!(Watch::read(br#"{"v":2,"other":[]}"#), Ok(None)));
        assert!(Watch::read(b"{}").is_err() && Watch::read(b"").is_err());
    }

    #[test]
    fn a_wait_grows_with_the_age_and_ends_with_the_due_time_of_the_member() {
        let stored = STORED.replace(",\"since\":1795503500000", "");
        let mut watch = Watch::read(stored.as_bytes()).unwrap().unwrap();
        let start = Timestamp::from_millis(1_795_503_500_000);
        let id = TaskId::new("b/6").unwrap();
        let mut wait = |state, due_in, age| {
            let now = start.plus(age);
            // Only at the first look was the watcher sent at the start.
            let submitted_at = if age == seconds(1) { start } else { now };
            let member = TaskInfo::new(id.clone(), state, now.plus(due_in));
            watch.wait(&member, now, submitted_at)
        };
        let (running, scheduled) = (TaskState::Running, TaskState::Scheduled);
        assert_eq!(wait(running, seconds(30), seconds(1)), seconds(1));
        assert_eq!(wait(running, seconds(30), seconds(50)), seconds(5));
        assert_eq!(wait(running, seconds(30), hours(5)), seconds(10));
        assert_eq!(wait(scheduled, seconds(0), seconds(50)), seconds(5));
        assert_eq!(wait(scheduled, seconds(30), seconds(50)), seconds(31));
        assert_eq!(wait(scheduled, hours(1), seconds(50)), minutes(6));
        assert_eq!(wait(scheduled, hours(99), seconds(50)), hours(1));
    }
}
