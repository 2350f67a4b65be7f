//! Changes of one scheduled task.

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
    let store = context.store();
    Ok(store.update(&task_type, &TaskId::new(id)?, message).await?)
}
