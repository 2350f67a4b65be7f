//! A task as a client sends it.

use delayq_core::NewTask;
use delayq_core::job::{check_headers, check_message};
use delayq_plugin::Result;
use delayq_proto::pb;
use delayq_service::push::refuse_reserved;

use super::call::Call;
use super::refusal::Refusal;

/// A task that may be stored.
pub(super) struct Checked {
    pub(super) task: NewTask,
    /// Whether the server has given it a target of its own.
    pub(super) has_target: bool,
}

/// A task as it was sent.
pub(super) struct Sent {
    /// Its id, a new one if it was sent without.
    pub(super) id: String,
    task: Result<NewTask>,
    /// A target of its own, as JSON.
    target: Option<String>,
}

impl Sent {
    /// Reads a task, unless the token may not send it.
    pub(super) fn read(mut sent: pb::NewTask, call: &Call) -> Result<Self, Refusal> {
        let (mut id, target) = (sent.id.clone(), sent.target.take());
        let task = NewTask::try_from(sent);
        if let Ok(task) = &task {
            call.task_type(task.task_type.as_str())?;
            id = task.id.to_string();
        }
        if target.is_some() {
            call.caller.require_own_target(&call.space)?;
        }
        Ok(Self { id, task, target })
    }

    /// The task within the limits of the server, with its target. Times need no check: their form
    /// has a unit, and stores stop at the last one that there is.
    pub(super) async fn checked(self, call: &Call) -> Result<Checked> {
        let mut task = self.task?;
        let limits = call.limits();
        check_message(&task.message, &limits)?;
        refuse_reserved(task.headers.keys())?;
        let has_target = self.target.is_some();
        if let Some(text) = self.target {
            let (push, named) = (&call.space.push, (&task.task_type, &task.id));
            let headers = push.headers_of_own(named, &task.message, &text).await?;
            task.headers.extend(headers);
        }
        check_headers(&task.headers)?;
        Ok(Checked { task, has_target })
    }
}
