//! The message of the Spring delay queue.

use delayq_core::{TaskId, TaskType, Timestamp};
use serde::{Deserialize, Serialize};

use crate::call::Invocation;

/// A task as the Spring delay queue sends it, to its server and to applications.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[non_exhaustive]
pub struct SpringJob {
    /// The id of the task.
    pub task_id: Option<String>,
    /// Its type, within the application.
    pub task_type: Option<String>,
    /// When it is due, in milliseconds since the epoch.
    pub delay_time: i64,
    /// The message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub params: Option<String>,
    /// The application that serves it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub app_name: Option<String>,
}

impl SpringJob {
    /// The call that it is, to the worker of its type.
    pub(crate) fn into_call(self) -> Result<Invocation, String> {
        let task_type = TaskType::new(self.task_type.unwrap_or_default())
            .map_err(|error| format!("taskType: {error}"))?;
        let id = TaskId::new(self.task_id.unwrap_or_default())
            .map_err(|error| format!("taskId: {error}"))?;
        let message = self.params.unwrap_or_default().into_bytes();
        Ok(Invocation::of(task_type, id, message).due_at(Timestamp::from_millis(self.delay_time)))
    }
}
