//! The recurring tasks of a store, whoever declares them.

use delayq_plugin::{
    RecurringInfo, RecurringOfType, Result, TaskSubmitService, TaskType, Timestamp, TypeStats,
};
use futures_util::{StreamExt, TryStreamExt, stream};
use serde::Serialize;

/// Number of types read at a time.
const AT_ONCE: usize = 16;

/// A recurring task.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct RecurringTask {
    /// Its type, name and schedule, and its next occurrence.
    #[serde(flatten)]
    pub info: RecurringInfo,
    /// The number of occurrences of its type that run now.
    pub running: u64,
    /// The number of dead occurrences of its type.
    pub dead: u64,
    /// The end of the pause of its type, if it is paused.
    pub paused_until: Option<Timestamp>,
    /// The number of instances that may serve its type.
    pub serving: usize,
}

/// The recurring tasks of a store.
#[derive(Clone, Debug, Default, Serialize)]
#[non_exhaustive]
pub struct RecurringTasks {
    /// Those whose next occurrences were found, by type and name.
    pub recurring: Vec<RecurringTask>,
    /// The types of which only the first 1,024 waiting tasks were read: they may have more
    /// recurring tasks.
    pub partly_read: Vec<TaskType>,
}

/// The recurring tasks whose next occurrences wait in the store. One that no instance declares any
/// more is listed until its last occurrence has run.
///
/// Takes a call for each 128 waiting tasks of each listed type, up to eight, and one more for each
/// type with recurring tasks.
///
/// # Errors
/// The store's errors.
pub async fn recurring(tasks: &TaskSubmitService) -> Result<RecurringTasks> {
    let instances = tasks.instances().await?;
    let types = tasks.types().await?.into_iter();
    let calls = types.map(|task_type| of_type(tasks, task_type));
    let found: Vec<_> = stream::iter(calls).buffered(AT_ONCE).try_collect().await?;
    let mut all = RecurringTasks::default();
    for Recurrences {
        task_type,
        found,
        stats,
    } in found
    {
        if !found.is_complete {
            all.partly_read.push(task_type);
        }
        let Some(stats) = stats else {
            continue;
        };
        let infos = found.recurring.into_iter();
        all.recurring.extend(infos.map(|info| RecurringTask {
            running: stats.running,
            dead: stats.dead,
            paused_until: stats.paused_until,
            serving: delayq_plugin::store::serving(&instances, &info.task_type),
            info,
        }));
    }
    Ok(all)
}

/// The recurring tasks of a type.
struct Recurrences {
    task_type: TaskType,
    found: RecurringOfType,
    /// The counts of a type that has some.
    stats: Option<TypeStats>,
}

async fn of_type(tasks: &TaskSubmitService, task_type: TaskType) -> Result<Recurrences> {
    let found = tasks.recurring_of(task_type.as_str()).await?;
    let stats = if found.recurring.is_empty() {
        None
    } else {
        Some(tasks.stats(task_type.as_str()).await?)
    };
    Ok(Recurrences {
        task_type,
        found,
        stats,
    })
}
