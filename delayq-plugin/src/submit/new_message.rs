//! The message that replaces the one of a scheduled task.

use delayq_core::job::{
    CONTENT_TYPE, check_json, check_message, check_message_type, content_type_of, is_json_type,
};
use delayq_core::store::ChangeOutcome;
use delayq_core::task::Headers;
use delayq_core::{Error, Limits, Result, Store, TaskId, TaskState, TaskType};

/// A message within the limits, and its content type if the caller names one.
pub(super) struct NewMessage<'a> {
    message: Vec<u8>,
    content_type: Option<&'a str>,
}

impl<'a> NewMessage<'a> {
    pub(super) fn new(message: Vec<u8>, limits: &Limits) -> Result<Self> {
        check_message(&message, limits)?;
        Ok(Self {
            message,
            content_type: None,
        })
    }

    pub(super) fn into_bytes(self) -> Vec<u8> {
        self.message
    }

    pub(super) fn of_type(self, content_type: &'a str) -> Self {
        Self {
            content_type: Some(content_type),
            ..self
        }
    }

    /// Replaces the message of the task. Its headers are read only if they matter: for a message
    /// that is no JSON, or one with a content type.
    pub(super) async fn put(
        self,
        store: &dyn Store,
        task_type: &TaskType,
        id: &TaskId,
    ) -> Result<ChangeOutcome> {
        let Self {
            message,
            content_type,
        } = self;
        if content_type.is_none() && check_json(&message).is_ok() {
            return store.update(task_type, id, message).await;
        }
        let found = store.find(task_type, id).await?;
        let Some(task) = found.filter(|task| task.state == TaskState::Scheduled) else {
            return store.update(task_type, id, message).await;
        };
        let changed = changed_header(&task.headers, content_type)?;
        let mut headers = task.headers;
        headers.extend(changed.clone());
        if let Some(asked) = content_type.filter(|_| content_type_of(&headers).is_none()) {
            headers.insert(CONTENT_TYPE.to_owned(), asked.to_owned());
        }
        check_message_type(&headers, &message)?;
        if changed.is_empty() {
            return store.update(task_type, id, message).await;
        }
        store.update_with(task_type, id, message, &changed).await
    }
}

/// True for a type that clients write by themselves, and that adds nothing to a message that has
/// none: text, and JSON, which is checked.
fn is_usual(content_type: &str) -> bool {
    let essence = content_type.split(';').next().unwrap_or_default().trim();
    is_json_type(content_type) || essence.eq_ignore_ascii_case("text/plain")
}

/// The header that a new content type changes; empty if it is the same.
fn changed_header(headers: &Headers, content_type: Option<&str>) -> Result<Headers> {
    let Some(asked) = content_type else {
        return Ok(Headers::new());
    };
    match content_type_of(headers) {
        Some((name, present)) if present != asked => {
            Ok([(name.to_owned(), asked.to_owned())].into())
        }
        None if !is_usual(asked) => {
            let reason = "the task was sent without a content type, and an update adds no header: \
                          leave it out, or cancel the task and send it again";
            Err(Error::invalid("content-type", reason))
        }
        _ => Ok(Headers::new()),
    }
}
