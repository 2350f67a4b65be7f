//! A call, as it was posted.

use axum::http::HeaderMap;
use delayq_core::task::Headers;
use delayq_core::worker::Attempt;
use delayq_core::{TaskId, TaskType, Timestamp};

/// The path that a server calls, unless the announcement says otherwise.
pub const WORK_PATH: &str = "/delayq/work";
/// The path that servers of the Spring delay queue call.
pub const SPRING_PATH: &str = "/hf/delay_queue/work";
/// Beginning of the headers that carry those of the task.
const TASK_HEADER: &str = "delayq-header-";

/// One attempt of a task.
#[derive(Clone, Debug)]
pub(crate) struct Invocation {
    pub(crate) task_type: TaskType,
    pub(crate) id: TaskId,
    pub(crate) message: Vec<u8>,
    pub(crate) attempt: u32,
    tried: u32,
    fence: u64,
    due_at: Timestamp,
    submitted_at: Timestamp,
    headers: Headers,
}

impl Invocation {
    /// The call that these headers and this body are.
    pub(crate) fn read(headers: &HeaderMap, body: Vec<u8>) -> Result<Self, String> {
        let task_type = header(headers, "delayq-task-type").unwrap_or_default();
        let id = header(headers, "delayq-task-id").unwrap_or_default();
        let task_type = TaskType::new(task_type)
            .map_err(|error| format!("the header delayq-task-type: {error}"))?;
        let id = TaskId::new(id).map_err(|error| format!("the header delayq-task-id: {error}"))?;
        Ok(Self::of(task_type, id, body).with(headers))
    }

    /// A first attempt of which nothing else is known.
    pub(crate) fn of(task_type: TaskType, id: TaskId, message: Vec<u8>) -> Self {
        Self {
            task_type,
            id,
            message,
            attempt: 1,
            tried: 1,
            fence: 0,
            due_at: Timestamp::ZERO,
            submitted_at: Timestamp::ZERO,
            headers: Headers::new(),
        }
    }

    /// The same due at `due_at`, unless the headers say otherwise.
    pub(crate) fn due_at(mut self, due_at: Timestamp) -> Self {
        self.due_at = due_at;
        self
    }

    /// The same with the facts that the headers of a server say.
    pub(crate) fn with(mut self, headers: &HeaderMap) -> Self {
        if let Some(attempt) = number(headers, "delayq-attempt") {
            self.attempt = attempt;
        }
        // A server before this header counts every attempt.
        self.tried = number(headers, "delayq-tried").unwrap_or(self.attempt);
        if let Some(fence) = number(headers, "delayq-fence") {
            self.fence = fence;
        }
        if let Some(due_at) = number(headers, "delayq-due-at") {
            self.due_at = Timestamp::from_millis(due_at);
        }
        let push_id = header(headers, "webhook-id").unwrap_or_default();
        let submitted_at = push_id.rsplit_once('/').and_then(|(_, at)| at.parse().ok());
        self.submitted_at = submitted_at.map_or(self.due_at, Timestamp::from_millis);
        for (name, value) in headers {
            let name = name.as_str().strip_prefix(TASK_HEADER);
            if let (Some(name), Ok(value)) = (name, value.to_str()) {
                self.headers.insert(name.to_owned(), value.to_owned());
            }
        }
        self
    }

    /// Whether the identity that was signed is that of this task.
    pub(crate) fn is_what_was_signed(&self, headers: &HeaderMap) -> bool {
        self.is_what_was_signed_for(None, headers)
    }

    /// The same of a task whose type may be one within this application: the server then has the
    /// name of the application before it.
    pub(crate) fn is_what_was_signed_for(&self, app: Option<&str>, headers: &HeaderMap) -> bool {
        let push_id = header(headers, "webhook-id").unwrap_or_default();
        let Some((task, _)) = push_id.rsplit_once('/') else {
            return false;
        };
        let within = app.and_then(|app| task.strip_prefix(app)?.strip_prefix('-'));
        let own = format!("{}/{}", self.task_type, self.id);
        task == own || within.is_some_and(|task| task == own)
    }

    /// The attempt that it is, claimed at `now`, and its message.
    pub(crate) fn into_attempt(self, now: Timestamp) -> (Attempt, Vec<u8>) {
        let attempt = Attempt {
            task_type: self.task_type,
            id: self.id,
            attempt: self.attempt,
            tried: self.tried,
            due_at: self.due_at,
            claimed_at: now,
            submitted_at: self.submitted_at,
            fence: self.fence,
            headers: self.headers,
        };
        (attempt, self.message)
    }
}

fn header<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}

fn number<T: std::str::FromStr>(headers: &HeaderMap, name: &str) -> Option<T> {
    header(headers, name)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_attempt_whose_lock_expired_is_not_counted_by_the_retry_policy() {
        let read = |facts: &[(&'static str, &str)]| {
            let named = [("delayq-task-type", "mail"), ("delayq-task-id", "1")];
            let facts = named.iter().chain(facts);
            let headers =
                facts.map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap()));
            let call = Invocation::read(&headers.collect(), Vec::new()).unwrap();
            let (attempt, _) = call.into_attempt(Timestamp::ZERO);
            (attempt.attempt, attempt.tried)
        };
        assert_eq!(
            read(&[("delayq-attempt", "4"), ("delayq-tried", "2")]),
            (4, 2)
        );
        assert_eq!(read(&[("delayq-attempt", "4")]), (4, 4));
    }
}
