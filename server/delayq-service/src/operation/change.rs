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

/// Replaces the message of a task, and its content type if there is one.
///
/// # Errors
/// `forbidden`, `limit-exceeded`, `bad-request` for JSON that is none or a content type that the
/// task has no header for, and errors of the store.
pub async fn update(
    context: &Context,
    task_type: &str,
    id: &str,
    message: Vec<u8>,
    content_type: Option<&str>,
) -> Result<ChangeOutcome, Problem> {
    let task_type = context.caller.require_type(task_type)?;
    context.check_message(&message)?;
    if context.is_store_of_caller {
        // The application has checked the content.
        let store = context.store();
        return Ok(store.update(&task_type, &TaskId::new(id)?, message).await?);
    }
    let (tasks, task_type) = (context.tasks(), task_type.as_str());
    Ok(match content_type {
        Some(kind) => tasks.update_raw_as(task_type, id, message, kind).await?,
        None => tasks.update_raw(task_type, id, message).await?,
    })
}
