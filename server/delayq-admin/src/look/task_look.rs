//! The data of a task's page.

use std::time::Duration;

use delayq_ops::{Explanation, Moment, explain, timeline};
use delayq_plugin::history::Life;
use delayq_plugin::{InstanceInfo, Result, TaskInfo, TaskSubmitService};

/// How long the page waits for the history, which is no part of the store.
const PATIENCE: Duration = Duration::from_secs(1);

/// A task and its history.
pub(crate) struct TaskLook {
    pub(crate) task: Option<TaskInfo>,
    pub(crate) explained: Explanation,
    pub(crate) moments: Vec<Moment>,
    /// The instance that holds the task, if it is announced.
    pub(crate) holder: Option<InstanceInfo>,
    /// Its ended lives, latest first, if a history is kept.
    pub(crate) lives: Vec<Life>,
    /// Why those of the history are missing, if so.
    pub(crate) history_error: Option<String>,
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
        let mut look = Self {
            task,
            explained,
            moments,
            holder,
            lives: Vec::new(),
            history_error: None,
        };
        if let Some(history) = tasks.history() {
            let reading = history.what_became_of(&task_type, &id);
            match tokio::time::timeout(PATIENCE, reading).await {
                Ok(Ok(fate)) => {
                    look.lives = fate.lives;
                    look.history_error = fate.history_error.map(|error| error.to_string());
                }
                Ok(Err(error)) => look.history_error = Some(error.to_string()),
                Err(_) => look.history_error = Some("it does not answer".to_owned()),
            }
        }
        Ok(look)
    }
}
