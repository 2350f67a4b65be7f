//! The types that an operation is about.

use delayq_plugin::{Result, TaskSubmitService, TaskType, TypePattern};

/// The type that `types` names, listed or not; the listed ones that it matches as a pattern.
pub(crate) async fn selected(tasks: &TaskSubmitService, types: &str) -> Result<Vec<TaskType>> {
    let pattern = TypePattern::new(types)?;
    if let TypePattern::Exact(task_type) = pattern {
        return Ok(vec![task_type]);
    }
    let mut listed = tasks.types().await?;
    listed.retain(|task_type| pattern.matches(task_type));
    Ok(listed)
}
