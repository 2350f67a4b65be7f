//! Pauses of the types that a pattern matches.

use delayq_core::{Result, Store, TaskType, Timestamp};

use super::matching_types;

/// Pauses these types; returns which.
pub(crate) async fn pause(
    store: &dyn Store,
    types: &str,
    until: Option<Timestamp>,
) -> Result<Vec<TaskType>> {
    let types = matching_types(store, types).await?;
    for task_type in &types {
        store.pause(task_type, until).await?;
    }
    Ok(types)
}

/// Ends their pauses; returns which.
pub(crate) async fn resume(store: &dyn Store, types: &str) -> Result<Vec<TaskType>> {
    let types = matching_types(store, types).await?;
    for task_type in &types {
        store.resume(task_type).await?;
    }
    Ok(types)
}
