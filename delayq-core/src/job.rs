//! The submitted form of a task: filled in by an application, and accepted by a store.

use std::fmt;
use std::time::Duration;

use serde::Serialize;

mod check;
mod content;
mod delay;
mod first_send;
mod header;
mod new_task;
mod on_conflict;
mod throttle;
mod time;

pub use check::{check_headers, check_message, check_times, version_of};
pub use content::{
    CONTENT_TYPE, JSON_TYPE, check_content, check_json, check_message_type, content_type_of,
    is_json_type,
};
pub use delay::{IntoDelay, check_delay};
pub use header::{header_name, with_kept_names};
pub use new_task::NewTask;
pub use on_conflict::OnConflict;
pub use time::IntoTime;

use self::check::refuse_generated_id;
use self::first_send::FirstSend;
use self::throttle::Throttle;
use crate::error::{Error, Result};
use crate::name::{TaskId, TaskType};
use crate::redacted::{RedactedHeaders, RedactedMessage};
use crate::task::Headers;
use crate::time::{MAX_DELAY, Timestamp};

/// Largest message that any configuration may allow: 1 MiB. Larger ones belong in a blob store.
pub const MAX_MESSAGE_BYTES: usize = 1 << 20;
/// Maximum number of headers of one task.
pub const MAX_HEADERS: usize = 64;
/// The header that carries the version of a message, see [`DelayQueueJob::version`].
pub const VERSION_HEADER: &str = "delayq-version";
/// Largest sum of header names and values of one task, in bytes: headers are read with every claim.
pub const MAX_HEADER_BYTES: usize = 8 << 10;

/// The header that [`DelayQueueJob::group`] sets.
pub const GROUP_HEADER: &str = "group";

/// The time when a task is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// This long after the store accepted it, by the store's clock.
    After(Duration),
    /// At this time; a past time means now.
    At(Timestamp),
}

/// The time when a task stops being worth running. It then ends as expired instead of starting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expiry {
    /// At this time.
    At(Timestamp),
    /// This long after the due time set by the last submit, reschedule or requeue.
    AfterDue(Duration),
}

/// The limits that a submitted job is checked against.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Largest message in bytes; default 256 KiB, at most [`MAX_MESSAGE_BYTES`].
    pub max_message_bytes: usize,
    /// Longest delay; default and at most 10 years ([`MAX_DELAY`]).
    pub max_delay: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_message_bytes: 256 << 10,
            max_delay: MAX_DELAY,
        }
    }
}

/// A task as an application submits it: type, message, due time and options.
///
/// The id is generated here, not by the store, so that it is safe to send a clone again after a
/// lost answer.
///
/// ```
/// use delayq_core::{DelayQueueJob, minutes};
///
/// # fn main() -> Result<(), delayq_core::Error> {
/// let job = DelayQueueJob::new("order.cancel", &"order 42")?
///     .id("order-42")
///     .after(minutes(30))
///     .header("shop", "berlin");
/// # Ok(()) }
/// ```
#[derive(Clone, PartialEq, Eq)]
#[must_use = "a job does nothing until it is sent"]
pub struct DelayQueueJob {
    task_type: String,
    id: String,
    /// True if the application has set no id.
    has_generated_id: bool,
    /// The due time, or the error of parsing it.
    when: Result<When>,
    expiry: Result<Option<Expiry>>,
    on_conflict: Result<OnConflict>,
    again_if_running: bool,
    throttle: Result<Option<Throttle>>,
    message: Vec<u8>,
    headers: Headers,
    first_send: FirstSend,
    has_passed_middleware: bool,
}

impl fmt::Debug for DelayQueueJob {
    /// Shows only the length of the message and the names of the headers.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DelayQueueJob")
            .field("task_type", &self.task_type)
            .field("id", &self.id)
            .field("has_generated_id", &self.has_generated_id)
            .field("when", &self.when)
            .field("expiry", &self.expiry)
            .field("on_conflict", &self.on_conflict)
            .field("again_if_running", &self.again_if_running)
            .field("throttle", &self.throttle)
            .field("message", &RedactedMessage(&self.message))
            .field("headers", &RedactedHeaders(&self.headers))
            .finish_non_exhaustive()
    }
}

impl DelayQueueJob {
    /// A job with `message` as JSON, due now, with a generated id.
    ///
    /// # Errors
    /// [`Error::Serialize`] when `message` has no JSON form. Names and limits are checked by
    /// `send`.
    pub fn new(task_type: impl Into<String>, message: &(impl Serialize + ?Sized)) -> Result<Self> {
        let message = serde_json::to_vec(message).map_err(Error::serialize)?;
        Ok(Self::raw(task_type, message))
    }

    /// A job with raw bytes as its message, due now, with a generated id.
    pub fn raw(task_type: impl Into<String>, message: impl Into<Vec<u8>>) -> Self {
        Self {
            task_type: task_type.into(),
            id: TaskId::generate().to_string(),
            has_generated_id: true,
            when: Ok(When::After(Duration::ZERO)),
            expiry: Ok(None),
            on_conflict: Ok(OnConflict::default()),
            again_if_running: false,
            throttle: Ok(None),
            message: message.into(),
            headers: Headers::new(),
            first_send: FirstSend::default(),
            has_passed_middleware: false,
        }
    }

    /// Uses `id`, such as a business key, instead of the generated one. It must be unique within
    /// the task type.
    pub fn id(mut self, id: impl Into<String>) -> Self {
        self.id = id.into();
        self.has_generated_id = false;
        self
    }

    /// Due `delay` after the store accepts it, by the store's clock: a [`Duration`], or text such
    /// as `"30m"`, see [`IntoDelay`]. The send refuses text that is not a delay.
    pub fn after(mut self, delay: impl IntoDelay) -> Self {
        self.when = delay.into_delay().map(When::After);
        self
    }

    /// Due at `time`; a past time means now. A time before 2001 is refused, as it was probably
    /// given in seconds. See [`IntoTime`] for the accepted forms, such as
    /// `"2026-12-24T18:00[Europe/Berlin]"`.
    pub fn at(mut self, time: impl IntoTime) -> Self {
        self.when = time.into_time().map(When::At);
        self
    }

    /// Not started from `time` on: it ends as expired.
    pub fn expires_at(mut self, time: impl IntoTime) -> Self {
        self.expiry = time.into_time().map(Expiry::At).map(Some);
        self
    }

    /// Not started once it is `span` late: it ends as expired.
    pub fn expires_after(mut self, span: impl IntoDelay) -> Self {
        self.expiry = span.into_delay().map(Expiry::AfterDue).map(Some);
        self
    }

    /// Replaces a scheduled or dead task with the same id. A job with a delay always does: sending
    /// the same job again restarts its delay.
    pub fn replace(mut self) -> Self {
        self.on_conflict = Ok(OnConflict::Replace);
        self
    }

    /// Keeps an existing task with the same id, whatever its message.
    pub fn keep(mut self) -> Self {
        self.on_conflict = Ok(OnConflict::Keep);
        self
    }

    /// Due once `delay` has passed without another send with this id, and at the latest `max_wait`
    /// after the first one. The task gets the message, headers and expiry of the latest send. This
    /// requires an id of your own, and a `max_wait` at least as long as `delay`.
    ///
    /// A wait ends with the first attempt: a send while the task waits for a retry or is dead
    /// begins a new one. For a running task see [`again_if_running`](Self::again_if_running).
    pub fn debounce(mut self, delay: impl IntoDelay, max_wait: impl IntoDelay) -> Self {
        self.when = delay.into_delay().map(When::After);
        let max_wait = max_wait.into_delay();
        self.on_conflict = max_wait.map(|max_wait| OnConflict::Debounce { max_wait });
        self
    }

    /// If the task with this id is running when this job is sent, the task runs again afterwards:
    /// once it is done, dead or expired, this job becomes a new task with its own message, headers
    /// and expiry, not due before its due time. The answer is `RunsAgain`. Without this option a
    /// send to a running task is answered `Conflict` or `AlreadyExists` and has no effect.
    ///
    /// If the job is sent again after a lost answer, it may cost one more run, if the first one has
    /// begun by then. Retries and releases of the running task come first. Of several such sends
    /// the last one counts; with `keep()` the first one. `cancel` drops the request. A task that
    /// has already ended does not prevent the run, even for the same request.
    pub fn again_if_running(mut self) -> Self {
        self.again_if_running = true;
        self
    }

    /// Allows one task per id and `window`, due at the end of the window in which it is sent, by
    /// the sender's clock. Windows are counted from the epoch: an hour's window ends on the hour
    /// (UTC). The first message of a window is kept, later ones are answered `AlreadyExists`.
    ///
    /// The task's id is `ID@END`, such as `doc-7@2026-11-23T17:00:00.000Z`. It is in the receipt,
    /// and `cancel` and `find` need it. This requires an id of your own, of at most 103 bytes.
    pub fn throttle(mut self, window: impl IntoDelay) -> Self {
        self.throttle = window.into_delay().map(Throttle).map(Some);
        self
    }

    /// The job as the follow-up of a task: with the id `id`, unless it has one of its own. An
    /// existing task with that id is kept, unless the job says [`replace`](Self::replace).
    pub fn following_as(mut self, id: &str) -> Self {
        if self.has_generated_id {
            id.clone_into(&mut self.id);
        }
        if self.on_conflict == Ok(OnConflict::Reject) {
            self.on_conflict = Ok(OnConflict::Keep);
        }
        self
    }

    /// Marks the job as having passed its sender's middleware, so that it does not pass again when
    /// it is sent.
    #[doc(hidden)]
    pub fn passed_middleware(mut self) -> Self {
        self.has_passed_middleware = true;
        self
    }

    /// True if it has passed its sender's middleware.
    #[doc(hidden)]
    #[must_use]
    pub fn has_passed_middleware(&self) -> bool {
        self.has_passed_middleware
    }

    /// Adds a header, which the worker gets together with the message. Its name is kept in lower
    /// case. The send refuses a name that is no token of HTTP, and a value with control characters
    /// or with blanks at its ends.
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.headers.insert(header_name(name), value.into());
        self
    }

    /// Labels the task with the header `group`, such as a tenant or an import. Filters can select
    /// by it.
    pub fn group(self, label: impl Into<String>) -> Self {
        self.header(GROUP_HEADER, label)
    }

    /// Adds headers that are made at the first send of this job or of a clone, and are the same at
    /// each further send. For middleware whose headers differ from call to call: with other
    /// headers, a repeated send would be a different request.
    pub fn headers_of_first_send(mut self, make: impl FnOnce() -> Headers) -> Self {
        let headers = self.first_send.headers(make).into_iter();
        let headers = headers.map(|(name, value)| (header_name(name), value));
        self.headers.extend(headers);
        self
    }

    /// Sets the version of the message's format, at least 1; the default is 1. A worker of an older
    /// version leaves the task to a newer instance, and a worker of a newer version can see which
    /// format it reads. Sent as the header `delayq-version`.
    pub fn version(mut self, version: u32) -> Self {
        self.headers.remove(VERSION_HEADER);
        if version == 1 {
            return self;
        }
        self.header(VERSION_HEADER, version.to_string())
    }

    /// The task type.
    #[must_use]
    pub fn task_type(&self) -> &str {
        &self.task_type
    }

    /// The message.
    #[must_use]
    pub fn message(&self) -> &[u8] {
        &self.message
    }

    /// True if the id is generated, and not set by [`id`](Self::id).
    #[must_use]
    pub fn has_generated_id(&self) -> bool {
        self.has_generated_id
    }

    /// True if the time of the send becomes part of the id.
    pub(crate) fn is_throttled(&self) -> bool {
        matches!(self.throttle, Ok(Some(_)))
    }

    /// The task id of this job; for a throttled job, the part before the window.
    #[must_use]
    pub fn task_id(&self) -> &str {
        &self.id
    }

    /// Validates every field; `now` is the caller's clock, used for the delay limit of absolute
    /// times.
    ///
    /// # Errors
    /// [`Error::InvalidName`], [`Error::InvalidInput`] or [`Error::LimitExceeded`], naming the
    /// field and the limit.
    pub fn into_task(self, limits: &Limits, now: Timestamp) -> Result<NewTask> {
        let (when, expiry, on_conflict) = (self.when?, self.expiry?, self.on_conflict?);
        let throttle = self.throttle?;
        if throttle.is_some() {
            refuse_generated_id("throttle", self.has_generated_id)?;
        }
        if let OnConflict::Debounce { .. } = on_conflict {
            refuse_generated_id("debounce", self.has_generated_id)?;
        }
        check_message(&self.message, limits)?;
        check_headers(&self.headers)?;
        let mut task = NewTask {
            task_type: TaskType::new(&self.task_type)?,
            id: TaskId::new(&self.id)?,
            when,
            expiry,
            on_conflict,
            again_if_running: self.again_if_running,
            message: self.message,
            headers: self.headers,
        };
        if let Some(Throttle(window)) = throttle {
            task = task.throttled(window, now)?;
        }
        check_times(&task, limits, now)?;
        Ok(task)
    }
}

#[cfg(test)]
mod tests;
