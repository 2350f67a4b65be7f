//! The data of a task's page.

use delayq_ops::{Explanation, Moment, explain, timeline};
use delayq_plugin::{InstanceInfo, Result, TaskInfo, TaskSubmitService};

/// A task and its history.
pub(crate) struct TaskLook {
    pub(crate) task: Option<TaskInfo>,
    pub(crate) explained: Explanation,
    pub(crate) moments: Vec<Moment>,
    /// The instance that holds the task, if it is announced.
    pub(crate) holder: Option<InstanceInfo>,
}

impl TaskLook {
    pub(crate) async fn read(
        tasks: TaskSubmitService,
        task_type: String,
        id: String,
    ) -> Result<Self> {
        let explained = explain(&tasks, &task_type, &id).await?;
        let moments = timeline(&tasks, &task_type, &id).await?;
        let task = tasks.find(&task_type, &id).await?;
        let holder = match task.as_ref().and_then(|task| task.holder.as_deref()) {
            Some(short) => {
                let mut instances = tasks.instances().await?.into_iter();
                instances.find(|one| one.id.short() == short)
            }
            None => None,
        };
        Ok(Self {
            task,
            explained,
            moments,
            holder,
        })
    }
}
