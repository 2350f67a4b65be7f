//! The recurring tasks of a store, whoever declares them.

use delayq_plugin::{RecurringInfo, Result, TaskSubmitService, TaskType, Timestamp, TypeStats};
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

/// The recurring tasks whose next occurrences wait in the store, by type and name. One that no
/// instance declares any more is listed until its last occurrence has run.
///
/// Takes a call for each listed type, and one more for each type with recurring tasks. Among more
/// than 1,000 waiting tasks of its type an occurrence may be missed.
///
/// # Errors
/// The store's errors.
pub async fn recurring(tasks: &TaskSubmitService) -> Result<Vec<RecurringTask>> {
    let instances = tasks.instances().await?;
    let types = tasks.types().await?.into_iter();
    let calls = types.map(|task_type| of_type(tasks, task_type));
    let found: Vec<_> = stream::iter(calls).buffered(AT_ONCE).try_collect().await?;
    let mut all = Vec::new();
    for Recurrences { infos, stats } in found {
        let Some(stats) = stats else {
            continue;
        };
        all.extend(infos.into_iter().map(|info| RecurringTask {
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
    infos: Vec<RecurringInfo>,
    /// The counts of a type that has some.
    stats: Option<TypeStats>,
}

async fn of_type(tasks: &TaskSubmitService, task_type: TaskType) -> Result<Recurrences> {
    let infos = tasks.recurring_of(task_type.as_str()).await?;
    let stats = match infos.as_slice() {
        [] => None,
        _ => Some(tasks.stats(task_type.as_str()).await?),
    };
    Ok(Recurrences { infos, stats })
}
