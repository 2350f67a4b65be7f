//! Cancels of tasks by their ids.

use delayq_plugin::{CancelOutcome, TaskId};

use crate::context::Context;
use crate::problem::Problem;

/// Most ids of one call.
const MAX_IDS: usize = 1_000;

/// Cancels tasks of a type by their ids; one outcome each, in order. Repeating it is harmless.
///
/// # Errors
/// Before anything is done: `forbidden`, and `bad-request` for more than 1,000 ids, or one that
/// cannot be an id. Those of the store; some may have been cancelled then.
pub async fn cancel_each<'a>(
    context: &Context,
    task_type: &str,
    ids: impl IntoIterator<Item = &'a str>,
) -> Result<Vec<CancelOutcome>, Problem> {
    let task_type = context.caller.require_type(task_type)?;
    let ids: Result<Vec<_>, _> = ids.into_iter().map(TaskId::new).collect();
    let ids = ids?;
    if ids.len() > MAX_IDS {
        let text = format!("{} ids: give at most {MAX_IDS}", ids.len());
        return Err(Problem::bad_request(text));
    }
    let ids = ids.iter().map(TaskId::as_str);
    let cancelled = context.tasks().cancel_each(task_type.as_str(), ids).await;
    Ok(cancelled.into_iter().collect::<Result<_, _>>()?)
}
