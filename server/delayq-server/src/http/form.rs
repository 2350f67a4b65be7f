//! Forms of requests and answers.

use std::collections::BTreeMap;
use std::time::Duration;

use axum::http::HeaderMap;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use delayq_plugin::store::SubmitOutcome;
use delayq_plugin::{
    Cursor, DelayQueueJob, IntoDelay, IntoTime, Receipt, TaskId, TaskInfo, TaskState, Timestamp,
    When,
};
use delayq_service::json::MillisOrText;
use delayq_service::problem::Problem;
use delayq_service::push::refuse_reserved;
use serde::{Deserialize, Deserializer, Serialize};
use utoipa::{IntoParams, ToSchema};

/// The prefix of request headers that become headers of the task.
pub(super) const TASK_HEADER: &str = "delayq-header-";

/// Options of a new task: when and how it runs.
#[derive(Clone, Debug, Default, Deserialize, IntoParams, ToSchema)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
pub(crate) struct CreateOptions {
    /// The delay from acceptance: milliseconds, or a span such as `30m` or `1h30m`.
    pub(crate) delay: Option<String>,
    /// The due time: milliseconds since the epoch, or RFC 3339, or with a zone such as
    /// `2026-12-24T18:00[Europe/Berlin]`. A past time means now.
    pub(crate) at: Option<String>,
    /// What to do if another task has this id: `reject` (default), `keep` or `replace`.
    pub(crate) on_conflict: Option<String>,
    /// Due once this span has passed without another create of this id, and at the latest after
    /// `max_wait`. Needs an id of your own.
    pub(crate) debounce: Option<String>,
    /// With `debounce`: the longest wait, from the first create on.
    pub(crate) max_wait: Option<String>,
    /// One task for each id and window of this length, due at the end of the window; the id of the
    /// task is `ID@END`. Needs an id of your own.
    pub(crate) throttle: Option<String>,
    /// Drop the task unless it starts within this span after its due time.
    pub(crate) expires_after: Option<String>,
    /// Drop the task unless it starts before this time.
    pub(crate) expires_at: Option<String>,
    /// The label of a group, to change and count its tasks together.
    pub(crate) group: Option<String>,
    /// The label of a project.
    pub(crate) project: Option<String>,
    /// If the task runs now, run it again afterwards.
    pub(crate) again_if_running: Option<bool>,
    /// Wait for the end of the task and return its worker's reply: milliseconds, or a span such as
    /// `30s`; at most `60s`.
    pub(crate) wait: Option<String>,
}

/// A span or time: text, or a number of milliseconds.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(untagged)]
#[allow(dead_code, reason = "it is the schema of what `text_or_number` reads")]
pub(super) enum TextOrNumber {
    Number(i64),
    Text(String),
}

/// A span or time as text.
pub(super) fn text_or_number<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<String>, D::Error> {
    let form: Option<MillisOrText> = Option::deserialize(deserializer)?;
    Ok(form.map(|form| match form {
        MillisOrText::Millis(number) => number.to_string(),
        MillisOrText::Text(text) => text,
    }))
}

/// Parses a span: digits are milliseconds, anything else is a span such as `30m`.
pub(super) fn read_span(text: &str) -> Result<Duration, Problem> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let delay = match text.parse() {
        Ok(ms) if is_number => Ok(Duration::from_millis(ms)),
        _ => text.into_delay(),
    };
    delay.map_err(|error| Problem::bad_request(error.to_string()))
}

/// Parses a time: digits are milliseconds since the epoch, anything else is RFC 3339. In a query a
/// `+` that is not escaped is a blank, so a blank before the zone is taken as one.
pub(super) fn read_time(text: &str) -> Result<Timestamp, Problem> {
    if let Ok(ms) = text.parse() {
        return Ok(Timestamp::from_millis(ms));
    }
    let unescaped = text
        .rsplit_once(' ')
        .and_then(|(time, zone)| format!("{time}+{zone}").into_time().ok());
    match (text.into_time(), unescaped) {
        (Ok(time), _) | (Err(_), Some(time)) => Ok(time),
        (Err(error), None) => Err(Problem::bad_request(error.to_string())),
    }
}

/// Reads a due time from a delay or a time; `None` without both.
pub(super) fn read_when(
    delay: Option<String>,
    at: Option<String>,
) -> Result<Option<When>, Problem> {
    match (delay, at) {
        (None, None) => Ok(None),
        (Some(delay), None) => Ok(Some(When::After(read_span(&delay)?))),
        (None, Some(at)) => Ok(Some(When::At(read_time(&at)?))),
        _ => Err(Problem::bad_request("delay and at exclude each other")),
    }
}

/// Reads a limit; `usual` is the default.
pub(super) fn read_limit(
    asked: Option<usize>,
    usual: usize,
    most: usize,
) -> Result<usize, Problem> {
    match asked.unwrap_or(usual) {
        limit if (1..=most).contains(&limit) => Ok(limit),
        limit => Err(Problem::bad_request(format!(
            "limit={limit}: use 1 to {most}"
        ))),
    }
}

/// Parses a state; the default is scheduled.
pub(super) fn read_state(text: Option<&str>) -> Result<TaskState, Problem> {
    let states = [
        TaskState::Scheduled,
        TaskState::Running,
        TaskState::Dead,
        TaskState::Done,
        TaskState::Cancelled,
        TaskState::Expired,
    ];
    let text = text.unwrap_or("scheduled");
    let found = states.into_iter().find(|state| state.as_str() == text);
    found.ok_or_else(|| {
        let text =
            format!("state={text}: use scheduled, running, dead, done, cancelled or expired");
        Problem::bad_request(text)
    })
}

/// Writes a cursor as text: `MS:ID`.
pub(super) fn shown_cursor(cursor: &Cursor) -> String {
    format!("{}:{}", cursor.at.as_millis(), cursor.id)
}

pub(super) fn read_cursor(text: &str) -> Result<Cursor, Problem> {
    let parts = text.split_once(':');
    let cursor = parts.and_then(|(ms, id)| {
        let at = Timestamp::from_millis(ms.parse().ok()?);
        Some(Cursor::new(at, TaskId::new(id).ok()?))
    });
    cursor.ok_or_else(|| Problem::bad_request("cursor: use `next` of the page before"))
}

impl CreateOptions {
    /// Applies the options to a job.
    pub(crate) fn apply(self, mut job: DelayQueueJob) -> Result<DelayQueueJob, Problem> {
        job = self.limit_rate(job)?;
        match read_when(self.delay, self.at)? {
            Some(When::After(delay)) => job = job.after(delay),
            Some(When::At(time)) => job = job.at(time),
            None => {}
        }
        if self.expires_after.is_some() && self.expires_at.is_some() {
            let text = "expires_after and expires_at exclude each other";
            return Err(Problem::bad_request(text));
        }
        if let Some(text) = self.expires_after {
            job = job.expires_after(read_span(&text)?);
        }
        if let Some(at) = self.expires_at {
            job = job.expires_at(read_time(&at)?);
        }
        job = match self.on_conflict.as_deref() {
            None | Some("reject") => job,
            Some("keep") => job.keep(),
            Some("replace") => job.replace(),
            Some(other) => {
                let text = format!("on_conflict={other}: use reject, keep or replace");
                return Err(Problem::bad_request(text));
            }
        };
        if let Some(group) = self.group {
            job = job.group(group);
        }
        if let Some(project) = self.project {
            job = job.header("project", project);
        }
        if self.again_if_running == Some(true) {
            job = job.again_if_running();
        }
        Ok(job)
    }

    /// Debounces or throttles a job.
    fn limit_rate(&self, job: DelayQueueJob) -> Result<DelayQueueJob, Problem> {
        let (debounce, throttle) = (self.debounce.as_deref(), self.throttle.as_deref());
        let name = match (debounce, throttle) {
            (None, None) if self.max_wait.is_some() => {
                let text = "max_wait: it is the limit of a debounce, so give debounce as well";
                return Err(Problem::bad_request(text));
            }
            (None, None) => return Ok(job),
            (Some(_), Some(_)) => {
                return Err(Problem::bad_request(
                    "debounce and throttle exclude each other",
                ));
            }
            (Some(_), None) => "debounce",
            (None, Some(_)) => "throttle",
        };
        let others = [
            ("delay", self.delay.is_some()),
            ("at", self.at.is_some()),
            ("on_conflict", self.on_conflict.is_some()),
        ];
        if let Some((other, _)) = others.into_iter().find(|(_, is_given)| *is_given) {
            let text = format!("{name} and {other} exclude each other");
            return Err(Problem::bad_request(text));
        }
        if job.has_generated_id() {
            let text = format!("{name}: it goes by the id of the task, so give the task an id");
            return Err(Problem::bad_request(text));
        }
        let Some(debounce) = debounce else {
            return Ok(job.throttle(read_span(throttle.unwrap_or_default())?));
        };
        let missing =
            || Problem::bad_request("debounce: give its longest wait, such as max_wait=1h");
        let most = read_span(self.max_wait.as_deref().ok_or_else(missing)?)?;
        let delay = read_span(debounce)?;
        if delay > most {
            let text = format!("max_wait: {most:?} is shorter than the debounce of {delay:?}");
            return Err(Problem::bad_request(text));
        }
        Ok(job.debounce(delay, most))
    }
}

/// Refuses a task header that only the server may set.
pub(super) fn refuse_own<T: AsRef<str>>(name: T) -> Result<T, Problem> {
    refuse_reserved([&name])?;
    Ok(name)
}

/// Copies the request headers that become headers of the task.
pub(crate) fn task_headers(
    mut job: DelayQueueJob,
    headers: &HeaderMap,
) -> Result<DelayQueueJob, Problem> {
    for (whole, value) in headers {
        if let Some(name) = whole.as_str().strip_prefix(TASK_HEADER) {
            let name = refuse_own(name)?;
            if headers.get_all(whole).iter().nth(1).is_some() {
                let text = format!("the header {TASK_HEADER}{name} is there twice");
                return Err(Problem::bad_request(text));
            }
            let value = std::str::from_utf8(value.as_bytes()).map_err(|_| {
                Problem::bad_request(format!("the header {TASK_HEADER}{name} is no UTF-8"))
            })?;
            job = job.header(name, value);
        }
    }
    Ok(job)
}

/// The acceptance of a task.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(crate) struct Accepted {
    /// The id of the task.
    pub(crate) id: String,
    /// `accepted`, `replaced`, `already_exists` or `runs_again`.
    pub(crate) outcome: &'static str,
    /// The due time, in milliseconds since the epoch; absent if the task already existed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) due_at: Option<i64>,
    /// The state of the existing task.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) state: Option<String>,
    /// What the acceptance survives: `memory`, `process`, `disk` or `replicated`.
    pub(crate) durability: String,
}

impl From<Receipt> for Accepted {
    fn from(receipt: Receipt) -> Self {
        let (outcome, state) = match receipt.outcome {
            SubmitOutcome::Accepted { replaced: true, .. } => ("replaced", None),
            SubmitOutcome::Accepted { .. } => ("accepted", None),
            SubmitOutcome::RunsAgain { .. } => ("runs_again", None),
            SubmitOutcome::AlreadyExists { state } => ("already_exists", Some(state.to_string())),
            _ => ("conflict", None),
        };
        Self {
            outcome,
            state,
            due_at: receipt.due_at().map(Timestamp::as_millis),
            durability: receipt.durability.as_str().to_owned(),
            id: receipt.id.to_string(),
        }
    }
}

/// A message.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(crate) struct MessageView {
    /// The message, if it is UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<String>,
    /// The message in base64, if it is not UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    message_base64: Option<String>,
}

impl MessageView {
    pub(crate) fn new(message: Option<Vec<u8>>) -> Self {
        let (message, message_base64) = match message.map(String::from_utf8) {
            None => (None, None),
            Some(Ok(text)) => (Some(text), None),
            Some(Err(bytes)) => (None, Some(STANDARD.encode(bytes.as_bytes()))),
        };
        Self {
            message,
            message_base64,
        }
    }
}

/// The known facts of a task.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(crate) struct TaskView {
    /// The id of the task.
    pub(crate) id: String,
    /// `scheduled`, `running`, `dead`, `done`, `cancelled` or `expired`.
    pub(crate) state: String,
    /// By state: the time when it is due, when its lock expires, when it died or when it ended. In
    /// milliseconds since the epoch, as all times here.
    pub(crate) at: i64,
    /// The time of acceptance.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) submitted_at: Option<i64>,
    /// The due time of the latest request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) due_at: Option<i64>,
    /// The time when the task expires.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) expires_at: Option<i64>,
    /// The number of the current attempt while running, else the number of attempts made.
    pub(crate) attempt: u32,
    #[serde(flatten)]
    pub(crate) message: MessageView,
    /// The headers.
    pub(crate) headers: BTreeMap<String, String>,
    /// The last error.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) last_error: Option<String>,
    /// True if a cancel was requested while it runs.
    pub(crate) cancel_requested: bool,
}

impl From<TaskInfo> for TaskView {
    fn from(task: TaskInfo) -> Self {
        let ms = |time: Option<Timestamp>| time.map(Timestamp::as_millis);
        Self {
            id: task.id.to_string(),
            state: task.state.to_string(),
            at: task.at.as_millis(),
            submitted_at: ms(task.submitted_at),
            due_at: ms(task.due_at),
            expires_at: ms(task.expires_at),
            attempt: task.attempt,
            message: MessageView::new(task.message),
            headers: task.headers,
            last_error: task.history.last_error,
            cancel_requested: task.cancel_requested,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plus_that_a_query_lost_is_that_of_the_zone() {
        let wanted = read_time("2026-12-24T18:00:00+01:00").unwrap();
        assert_eq!(read_time("2026-12-24T18:00:00 01:00").unwrap(), wanted);
        assert!(read_time("2026-12-24T18:00:00 soon").is_err());
    }

    #[test]
    fn a_number_may_be_a_whole_double_and_is_told_by_its_name() {
        #[derive(Debug, Deserialize)]
        struct Form {
            #[serde(deserialize_with = "text_or_number")]
            delay: Option<String>,
        }
        let read = |text: &str| serde_json::from_str::<Form>(&format!("{{\"delay\":{text}}}"));
        for (text, wanted) in [
            ("1000.0", "1000"),
            ("1e3", "1000"),
            ("-5", "-5"),
            ("\"30s\"", "30s"),
        ] {
            assert_eq!(read(text).unwrap().delay.as_deref(), Some(wanted), "{text}");
        }
        assert_eq!(read("null").unwrap().delay, None);
        for bad in ["1.5", "1e300", "true", "[1]"] {
            let said = read(bad).unwrap_err().to_string();
            assert!(
                said.contains("a whole number of milliseconds, or a text"),
                "{said}"
            );
        }
    }
}
