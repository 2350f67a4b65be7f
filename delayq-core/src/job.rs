//! The submitted form of a task: what an application fills in, and what a store accepts.

use std::fmt;
use std::time::Duration;

use serde::Serialize;

mod delay;
mod first_send;

pub use delay::{IntoDelay, check_delay};

use self::delay::check_unit;
use self::first_send::FirstSend;
use crate::error::{Error, Result};
use crate::name::{TaskId, TaskType};
use crate::redacted::{RedactedHeaders, RedactedMessage};
use crate::task::Headers;
use crate::time::{MAX_DELAY, Timestamp};

/// Largest message that any configuration may allow: 1 MiB. Larger ones belong into a blob store.
pub const MAX_MESSAGE_BYTES: usize = 1 << 20;
/// Most headers of one task.
pub const MAX_HEADERS: usize = 64;
/// The header that carries the version of a message, see [`DelayQueueJob::version`].
pub const VERSION_HEADER: &str = "delayq-version";
/// Largest sum of header names and values of one task, in bytes: headers are read with every claim.
pub const MAX_HEADER_BYTES: usize = 8 << 10;

/// When a task is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// This long after the store accepted it, on the store's clock.
    After(Duration),
    /// At this time; a past one means now.
    At(Timestamp),
}

/// When a task stops being worth running. It is then ended as expired instead of started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expiry {
    /// At this time.
    At(Timestamp),
    /// This long after the due time that the last submit, reschedule or requeue gave.
    AfterDue(Duration),
}

/// What to do when the type already has a task with this id that has not ended.
///
/// The same request sent again (same message, headers, times) is answered `AlreadyExists`, but for
/// `Replace` with a delay, which counts anew.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnConflict {
    /// Answer `Conflict` and change nothing.
    #[default]
    Reject,
    /// Answer `AlreadyExists` and keep the old task.
    Keep,
    /// Put the new task in the place of a scheduled or dead one; `Conflict` while it runs.
    Replace,
}

/// A task ready for a store: every field validated.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct NewTask {
    /// Its type.
    pub task_type: TaskType,
    /// Its id, unique within the type.
    pub id: TaskId,
    /// When it is due.
    pub when: When,
    /// When it expires.
    pub expiry: Option<Expiry>,
    /// What to do if the id is taken.
    pub on_conflict: OnConflict,
    /// The message.
    pub message: Vec<u8>,
    /// The headers.
    pub headers: Headers,
}

impl fmt::Debug for NewTask {
    /// The length of the message and the names of the headers only.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NewTask")
            .field("task_type", &self.task_type)
            .field("id", &self.id)
            .field("when", &self.when)
            .field("expiry", &self.expiry)
            .field("on_conflict", &self.on_conflict)
            .field("message", &RedactedMessage(&self.message))
            .field("headers", &RedactedHeaders(&self.headers))
            .finish()
    }
}

impl NewTask {
    /// A task due now, with no options.
    #[must_use]
    pub fn new(task_type: TaskType, id: TaskId, message: Vec<u8>) -> Self {
        Self {
            task_type,
            id,
            when: When::After(Duration::ZERO),
            expiry: None,
            on_conflict: OnConflict::default(),
            message,
            headers: Headers::new(),
        }
    }
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

/// A task as an application submits it: type, message, when, and options.
///
/// The id is made here, not by the store, so that sending a clone again after a lost answer is
/// safe.
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
    /// Or why the delay could not be read.
    when: Result<When>,
    expiry: Result<Option<Expiry>>,
    on_conflict: OnConflict,
    message: Vec<u8>,
    headers: Headers,
    has_generated_id: bool,
    first_send: FirstSend,
}

impl fmt::Debug for DelayQueueJob {
    /// The length of the message and the names of the headers only.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DelayQueueJob")
            .field("task_type", &self.task_type)
            .field("id", &self.id)
            .field("when", &self.when)
            .field("expiry", &self.expiry)
            .field("on_conflict", &self.on_conflict)
            .field("message", &RedactedMessage(&self.message))
            .field("headers", &RedactedHeaders(&self.headers))
            .finish_non_exhaustive()
    }
}

impl DelayQueueJob {
    /// A job whose message is `message` as JSON, due now, with a generated id.
    ///
    /// # Errors
    /// [`Error::Serialize`] when `message` has no JSON form. Names and limits are checked by
    /// `send`.
    pub fn new(task_type: impl Into<String>, message: &(impl Serialize + ?Sized)) -> Result<Self> {
        let message = serde_json::to_vec(message).map_err(Error::serialize)?;
        Ok(Self::raw(task_type, message))
    }

    /// A job with a message of any bytes, due now, with a generated id.
    pub fn raw(task_type: impl Into<String>, message: impl Into<Vec<u8>>) -> Self {
        Self {
            task_type: task_type.into(),
            id: TaskId::generate().to_string(),
            when: Ok(When::After(Duration::ZERO)),
            expiry: Ok(None),
            on_conflict: OnConflict::default(),
            message: message.into(),
            headers: Headers::new(),
            has_generated_id: true,
            first_send: FirstSend::default(),
        }
    }

    /// Uses `id`, a business key, instead of the generated one. Unique within the task type.
    pub fn id(mut self, id: impl Into<String>) -> Self {
        self.id = id.into();
        self.has_generated_id = false;
        self
    }

    /// Due `delay` after the store accepts it, measured on the store's clock: a [`Duration`], or
    /// text such as `"30m"`, see [`IntoDelay`]. Text that is no delay is refused by the send.
    pub fn after(mut self, delay: impl IntoDelay) -> Self {
        self.when = delay.into_delay().map(When::After);
        self
    }

    /// Due at `time`; a past time means now. One before 2001 is refused: it was given in seconds.
    pub fn at(mut self, time: impl Into<Timestamp>) -> Self {
        self.when = Ok(When::At(time.into()));
        self
    }

    /// Not started any more from `time` on: it ends as expired.
    pub fn expires_at(mut self, time: impl Into<Timestamp>) -> Self {
        self.expiry = Ok(Some(Expiry::At(time.into())));
        self
    }

    /// Not started any more once it is `span` late: it ends as expired.
    pub fn expires_after(mut self, span: impl IntoDelay) -> Self {
        self.expiry = span.into_delay().map(Expiry::AfterDue).map(Some);
        self
    }

    /// Replaces a scheduled or dead task with the same id. With a delay it always does: sent again,
    /// the same job counts its delay anew.
    pub fn replace(mut self) -> Self {
        self.on_conflict = OnConflict::Replace;
        self
    }

    /// Keeps an existing task with the same id, whatever its message.
    pub fn keep(mut self) -> Self {
        self.on_conflict = OnConflict::Keep;
        self
    }

    /// Adds a header, which the worker sees beside the message.
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.headers.insert(name.into(), value.into());
        self
    }

    /// Adds headers that are made at the first send, of this job or of a clone of it, and are the
    /// same at each further one. For middleware whose headers differ from call to call: sent again
    /// with others, the job would be another request.
    pub fn headers_of_first_send(mut self, make: impl FnOnce() -> Headers) -> Self {
        self.headers.extend(self.first_send.headers(make));
        self
    }

    /// The version of the message's form, 1 or more; without a call it is 1. A worker of an older
    /// version leaves the task to a newer instance, and one of a newer version knows what it reads.
    /// It travels as the header `delayq-version`.
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

    /// Whether the id is the generated one, and not one given by [`id`](Self::id).
    #[must_use]
    pub fn has_generated_id(&self) -> bool {
        self.has_generated_id
    }

    /// The task id that this job will have.
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
        let (when, expiry) = (self.when?, self.expiry?);
        check_message(&self.message, limits)?;
        check_headers(&self.headers)?;
        check_delay("delay", when, limits, now)?;
        match expiry {
            Some(Expiry::AfterDue(span)) => {
                check_delay("expires_after", When::After(span), limits, now)?;
            }
            Some(Expiry::At(time)) => check_unit("expires_at", time, now)?,
            None => {}
        }
        Ok(NewTask {
            task_type: TaskType::new(&self.task_type)?,
            id: TaskId::new(&self.id)?,
            when,
            expiry,
            on_conflict: self.on_conflict,
            message: self.message,
            headers: self.headers,
        })
    }
}

/// Checks a message that replaces another one.
///
/// # Errors
/// [`Error::LimitExceeded`].
pub fn check_message(message: &[u8], limits: &Limits) -> Result<()> {
    check_size(
        "message size in bytes",
        message.len(),
        limits.max_message_bytes,
    )
}

fn check_size(what: &'static str, actual: usize, limit: usize) -> Result<()> {
    let limit = limit.min(MAX_MESSAGE_BYTES);
    if actual <= limit {
        return Ok(());
    }
    Err(Error::LimitExceeded {
        what,
        actual: actual as u64,
        limit: limit as u64,
    })
}

/// The version of a message with these headers; 1 without the header.
///
/// # Errors
/// [`Error::InvalidInput`] when the header is no number of 1 or more.
pub fn version_of(headers: &Headers) -> Result<u32> {
    let Some(text) = headers.get(VERSION_HEADER) else {
        return Ok(1);
    };
    let version = text.parse().ok().filter(|version| *version > 0);
    version.ok_or_else(|| {
        let text: String = text.chars().take(40).collect();
        let reason = format!("{text:?} in the header {VERSION_HEADER} is no number of 1 or more");
        Error::invalid("version", reason)
    })
}

fn check_headers(headers: &Headers) -> Result<()> {
    check_size("number of headers", headers.len(), MAX_HEADERS)?;
    let bytes = headers
        .iter()
        .map(|(name, value)| name.len() + value.len())
        .sum();
    check_size("size of all headers in bytes", bytes, MAX_HEADER_BYTES)?;
    version_of(headers)?;
    let reason = "a header name is 1 or more visible ASCII characters, without blanks";
    for name in headers.keys() {
        if name.is_empty() || !name.bytes().all(|b| b.is_ascii_graphic()) {
            let value = name.chars().take(40).collect();
            return Err(Error::InvalidName {
                what: "header",
                value,
                reason,
            });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
