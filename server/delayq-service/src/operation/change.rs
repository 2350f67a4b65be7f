//! Changes of one scheduled task.

use delayq_core::job::{check_content, check_json};
use delayq_plugin::store::ChangeOutcome;
use delayq_plugin::{TaskId, When};

use crate::context::Context;
use crate::problem::Problem;

/// Moves a task to another time.
///
/// # Errors
/// `forbidden`, `bad-request` for a delay beyond the limit, and errors of the store.
pub async fn reschedule(
    context: &Context,
    task_type: &str,
    id: &str,
    when: When,
) -> Result<ChangeOutcome, Problem> {
    let task_type = context.caller.require_type(task_type)?;
    if context.is_store_of_caller {
        // The application has already checked the delay against its own limits.
        let store = context.store();
        return Ok(store
            .reschedule(&task_type, &TaskId::new(id)?, when)
            .await?);
    }
    let tasks = context.tasks();
    Ok(tasks.reschedule(task_type.as_str(), id, when).await?)
}

/// Replaces the message of a task.
///
/// # Errors
/// `forbidden`, `limit-exceeded`, and errors of the store.
pub async fn update(
    context: &Context,
    task_type: &str,
    id: &str,
    message: Vec<u8>,
) -> Result<ChangeOutcome, Problem> {
    let task_type = context.caller.require_type(task_type)?;
    context.check_message(&message)?;
    let (store, id) = (context.store(), TaskId::new(id)?);
    // The headers of the task say what its message is. They are read only for what is no JSON.
    if !context.is_store_of_caller
        && check_json(&message).is_err()
        && let Some(task) = store.find(&task_type, &id).await?
    {
        check_content(&task.headers, &message)?;
    }
    Ok(store.update(&task_type, &id, message).await?)
}
