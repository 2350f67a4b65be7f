//! Tasks to submit.

use delayq_core::{Error, NewTask, OnConflict, Result, TaskId, When};

use crate::field::{required, required_type, unknown};
use crate::pb;
use crate::time::{read_span, span};

impl From<NewTask> for pb::NewTask {
    fn from(task: NewTask) -> Self {
        let (on_conflict, max_wait) = match task.on_conflict {
            OnConflict::Reject => (pb::OnConflict::Reject, None),
            OnConflict::Keep => (pb::OnConflict::Keep, None),
            OnConflict::Replace => (pb::OnConflict::Replace, None),
            OnConflict::Debounce { max_wait } => (pb::OnConflict::Debounce, Some(span(max_wait))),
        };
        Self {
            task_type: task.task_type.to_string(),
            id: task.id.to_string(),
            when: Some(task.when.into()),
            expiry: task.expiry.map(Into::into),
            on_conflict: on_conflict.into(),
            max_wait,
            again_if_running: task.again_if_running,
            body: Some(pb::new_task::Body::Message(task.message)),
            headers: task.headers,
            target: None,
            throttle: None,
        }
    }
}

/// A task without an id gets a new one, and a task without a time is due now. The server handles
/// the target and the throttle.
impl TryFrom<pb::NewTask> for NewTask {
    type Error = Error;

    fn try_from(sent: pb::NewTask) -> Result<Self> {
        let task_type = required_type(&sent.task_type)?;
        if sent.throttle.is_some() {
            return Err(Error::invalid("throttle", "it is not read here"));
        }
        let id = if sent.id.is_empty() {
            refuse_generated_id(&sent)?;
            TaskId::generate()
        } else {
            TaskId::new(&sent.id)?
        };
        let message = match sent.body {
            Some(pb::new_task::Body::Message(message)) => message,
            Some(pb::new_task::Body::Text(text)) => text.into_bytes(),
            None => Vec::new(),
        };
        let mut task = Self::new(task_type, id, message);
        task.when = sent.when.map_or(Ok(task.when), When::try_from)?;
        task.expiry = sent.expiry.map(TryInto::try_into).transpose()?;
        let is_debounced = sent.on_conflict == i32::from(pb::OnConflict::Debounce);
        if sent.max_wait.is_some() && !is_debounced {
            let reason = "only a task with on_conflict = DEBOUNCE has one";
            return Err(Error::invalid("max_wait", reason));
        }
        task.on_conflict = match pb::OnConflict::try_from(sent.on_conflict) {
            Ok(pb::OnConflict::Reject) => OnConflict::Reject,
            Ok(pb::OnConflict::Keep) => OnConflict::Keep,
            Ok(pb::OnConflict::Replace) => OnConflict::Replace,
            Ok(pb::OnConflict::Debounce) => OnConflict::Debounce {
                max_wait: read_span("max_wait", required("max_wait", sent.max_wait)?)?,
            },
            Err(_) => return Err(unknown("on_conflict", sent.on_conflict)),
        };
        task.again_if_running = sent.again_if_running;
        task.headers = sent.headers;
        Ok(task)
    }
}

/// Refuses options that need a stable id, because a generated id is different for every task.
fn refuse_generated_id(sent: &pb::NewTask) -> Result<()> {
    let is_plain = sent.on_conflict == i32::from(pb::OnConflict::Reject);
    if is_plain && !sent.again_if_running {
        return Ok(());
    }
    let reason = "it is missing: on_conflict and again_if_running go by it";
    Err(Error::invalid("id", reason))
}
