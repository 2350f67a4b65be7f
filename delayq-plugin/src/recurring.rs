//! Recurring tasks: the application's declarations, and the occurrences sent for them.

use delayq_core::job::{VERSION_HEADER, header_name};
use delayq_core::task::Headers;
use delayq_core::{DelayQueueJob, Error, Result, TaskId, TaskInfo, TaskType, Timestamp};
use serde::Serialize;

use crate::schedule::Schedule;

/// Longest name of a recurring task: the id of an occurrence also holds a time.
const MAX_NAME: usize = 64;

/// The header with the local time of an occurrence in its zone.
pub(crate) const OCCURRENCE: &str = delayq_core::worker::OCCURRENCE_HEADER;
/// The header with the text of the schedule.
const SCHEDULE: &str = "delayq-schedule";
/// The header with the start of the instance that sent it, in milliseconds since the epoch.
const SINCE: &str = "delayq-schedule-since";

/// A task that recurs, see [`DelayQueuePluginBuilder::recurring`].
///
/// ```
/// use delayq_plugin::Recurring;
///
/// # fn main() -> delayq_plugin::Result<()> {
/// let report = Recurring::new("report.daily", "0 9 * * *")?
///     .zone("Europe/Berlin")?
///     .message(&"sales")?;
/// # let _ = report;
/// # Ok(()) }
/// ```
///
/// [`DelayQueuePluginBuilder::recurring`]: crate::DelayQueuePluginBuilder::recurring
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "give it to .recurring(..) of the builder"]
pub struct Recurring {
    pub(crate) task_type: TaskType,
    pub(crate) name: String,
    pub(crate) schedule: Schedule,
    message: Vec<u8>,
    headers: Headers,
    version: u32,
}

/// The occurrence that a recurring task waits for.
#[doc(hidden)]
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct NextOccurrence {
    /// Its id.
    pub id: TaskId,
    /// The time when it is due.
    pub due: Timestamp,
}

/// A recurring task of this process, as [`TaskSubmitService::recurring`] lists it.
///
/// [`TaskSubmitService::recurring`]: crate::TaskSubmitService::recurring
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct RecurringInfo {
    /// Its type.
    pub task_type: TaskType,
    /// Its name; empty unless one was given.
    pub name: String,
    /// Its schedule and zone, as written.
    pub schedule: String,
    /// The time when the next occurrence waiting in the store is due. `None`: it will be sent
    /// within a minute, or another instance has a different schedule.
    pub next: Option<Timestamp>,
    /// The id of that occurrence.
    pub next_id: Option<TaskId>,
}

/// The recurring tasks of a type, whoever declares them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct RecurringOfType {
    /// Those whose next occurrences were found, by name.
    pub recurring: Vec<RecurringInfo>,
    /// True if all waiting tasks of the type were read; otherwise only the first 1,024 by their due
    /// times, and there may be more recurring tasks.
    pub is_complete: bool,
}

impl Recurring {
    /// A task of this type at the times of `every`, see [`Schedule::new`]. Its message is JSON
    /// `null` unless [`message`](Self::message) sets one.
    ///
    /// # Errors
    /// `InvalidName` or `InvalidInput`, with what to write.
    pub fn new(task_type: impl AsRef<str>, every: &str) -> Result<Self> {
        let task_type = TaskType::new(task_type.as_ref())?;
        Ok(Self::of_schedule(task_type, Schedule::new(every)?))
    }

    pub(crate) fn of_schedule(task_type: TaskType, schedule: Schedule) -> Self {
        Self {
            task_type,
            name: String::new(),
            schedule,
            message: b"null".to_vec(),
            headers: Headers::new(),
            version: 1,
        }
    }

    /// Uses the clock of this time zone, see [`Schedule::zone`].
    ///
    /// # Errors
    /// `InvalidInput` for an unknown zone, and for an interval.
    pub fn zone(mut self, name: &str) -> Result<Self> {
        self.schedule = self.schedule.zone(name)?;
        Ok(self)
    }

    /// Sets a name, which tells several recurring tasks of one type apart. Keep it stable.
    ///
    /// # Errors
    /// `InvalidInput` unless the name is 1 to 64 visible ASCII characters without `@`.
    pub fn name(mut self, name: impl Into<String>) -> Result<Self> {
        self.name = name.into();
        let is_fine = |byte: u8| byte.is_ascii_graphic() && byte != b'@';
        if !(1..=MAX_NAME).contains(&self.name.len()) || !self.name.bytes().all(is_fine) {
            let reason = "1 to 64 visible ASCII characters without blanks and @";
            return Err(Error::invalid("name of a recurring task", reason));
        }
        Ok(self)
    }

    /// Sets the message of each occurrence, as JSON.
    ///
    /// # Errors
    /// `Serialize` when `message` has no JSON form.
    pub fn message(self, message: &(impl Serialize + ?Sized)) -> Result<Self> {
        let message = serde_json::to_vec(message).map_err(Error::serialize)?;
        Ok(self.raw_message(message))
    }

    /// Sets the message of each occurrence, as raw bytes.
    pub fn raw_message(mut self, message: impl Into<Vec<u8>>) -> Self {
        self.message = message.into();
        self
    }

    /// Adds a header to each occurrence, such as `group`.
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.headers.insert(header_name(name), value.into());
        self
    }

    /// Sets the version of the message's format, see [`DelayQueueJob::version`]; the default is 1.
    ///
    /// # Errors
    /// `InvalidInput` for 0.
    pub fn version(self, version: u32) -> Result<Self> {
        if version == 0 {
            let reason = "the first version is 1";
            return Err(Error::invalid("version of a recurring task", reason));
        }
        Ok(self.of_version(version))
    }

    pub(crate) fn of_version(mut self, version: u32) -> Self {
        self.version = version;
        self
    }

    pub(crate) fn is_named(&self, task_type: &TaskType, name: &str) -> bool {
        self.task_type == *task_type && self.name == name
    }

    /// The id of the occurrence at `time`, the same on all instances.
    pub(crate) fn id_at(&self, time: Timestamp) -> String {
        format!("{}@{}", self.name, time.to_string().replace(".000Z", "Z"))
    }

    /// The occurrence at `time`, sent by an instance that started at `since`.
    pub(crate) fn job_at(&self, time: Timestamp, since: Timestamp) -> DelayQueueJob {
        let job = DelayQueueJob::raw(self.task_type.as_str(), self.message.clone());
        let headers = self.headers.iter();
        headers
            .fold(job, |job, (name, value)| job.header(name, value))
            .id(self.id_at(time))
            .at(time)
            .keep()
            .version(self.version)
            .header(OCCURRENCE, self.schedule.in_zone(time))
            .header(SCHEDULE, self.schedule.to_string())
            .header(SINCE, since.as_millis().to_string())
    }
}

/// An occurrence found in the store, possibly sent by another release.
#[derive(Clone, Debug)]
pub(crate) struct Occurrence {
    pub(crate) time: Timestamp,
    pub(crate) schedule: Schedule,
    /// The version of its message.
    version: u32,
    /// The time when the instance that sent it started.
    pub(crate) since: Timestamp,
}

/// How an occurrence in the store relates to this instance's schedule of the same name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// From the same schedule.
    Own,
    /// From the different schedule of an instance that started later.
    Newer,
    /// From the schedule of an instance that started earlier, at a time that this schedule has,
    /// too.
    Shared,
    /// From the schedule of an instance that started earlier: no longer wanted.
    Superseded,
}

impl Occurrence {
    /// The occurrence of the recurring task `name` that a task is, if it is one.
    pub(crate) fn of(
        name: &str,
        id: &str,
        header: impl Fn(&str) -> Option<String>,
    ) -> Option<Self> {
        let time = id.strip_prefix(name)?.strip_prefix('@')?;
        let time: jiff::Timestamp = time.parse().ok()?;
        Some(Self {
            time: Timestamp::from_millis(time.as_millisecond()),
            schedule: Schedule::read(&header(SCHEDULE)?).ok()?,
            version: header(VERSION_HEADER).map_or(Some(1), |text| text.parse().ok())?,
            since: Timestamp::from_millis(header(SINCE)?.parse().ok()?),
        })
    }

    pub(crate) fn of_info(name: &str, info: &TaskInfo) -> Option<Self> {
        Self::of(name, info.id.as_str(), |header| {
            info.headers.get(header).cloned()
        })
    }

    /// The recurring task that sent this occurrence, as its own instance declares it, except for
    /// the message. `present` is this instance's recurring task of that name.
    pub(crate) fn recurring(&self, present: &Recurring) -> Recurring {
        Recurring {
            schedule: self.schedule.clone(),
            version: self.version,
            ..present.clone()
        }
    }

    /// How this occurrence relates to `schedule` on an instance that started at `since`.
    pub(crate) fn standing(&self, schedule: &Schedule, since: Timestamp) -> Standing {
        if self.schedule == *schedule {
            Standing::Own
        } else if self.since >= since {
            Standing::Newer
        } else if schedule.has(self.time) {
            Standing::Shared
        } else {
            Standing::Superseded
        }
    }
}
