//! What the page of a task reads.

use std::sync::Arc;

use delayq_ops::{Explanation, Moment, explain, explain_since, timeline};
use delayq_plugin::store::TypeStats;
use delayq_plugin::{InstanceInfo, Result, TaskInfo, TaskSubmitService};

/// A task and its life.
pub(crate) struct TaskLook {
    pub(crate) task: Option<TaskInfo>,
    pub(crate) explained: Explanation,
    pub(crate) moments: Vec<Moment>,
    /// The instance that holds it, while it is announced.
    pub(crate) holder: Option<InstanceInfo>,
    /// What the next look compares with, to tell the pace.
    stats: TypeStats,
}

impl TaskLook {
    pub(crate) async fn read(
        tasks: TaskSubmitService,
        task_type: String,
        id: String,
        earlier: Option<Arc<Self>>,
    ) -> Result<Self> {
        let stats = tasks.stats(&task_type).await?;
        let explained = match &earlier {
            Some(earlier) => explain_since(&tasks, &task_type, &id, &earlier.stats).await?,
            None => explain(&tasks, &task_type, &id).await?,
        };
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
            stats,
        })
    }
}
