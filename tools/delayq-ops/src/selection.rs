//! The types selected for an operation.

use delayq_plugin::{Result, TaskSubmitService, TaskType, TypePattern};

/// The type that `types` names, whether listed or not; or, for a pattern, the listed types that
/// match.
pub(crate) async fn selected(tasks: &TaskSubmitService, types: &str) -> Result<Vec<TaskType>> {
    let pattern = TypePattern::new(types)?;
    if let TypePattern::Exact(task_type) = pattern {
        return Ok(vec![task_type]);
    }
    let mut listed = tasks.types().await?;
    listed.retain(|task_type| pattern.matches(task_type));
    Ok(listed)
}
