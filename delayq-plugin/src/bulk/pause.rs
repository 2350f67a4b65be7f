//! Pauses of the types that a pattern matches.

use delayq_core::job::check_delay;
use delayq_core::{Error, Limits, Result, Store, TaskType, Timestamp, When};

use super::matching_types;

/// Pauses these types and returns them. An `until` that has passed by the store's clock is refused:
/// it would end the pause of a paused type.
pub(crate) async fn pause(
    store: &dyn Store,
    types: &str,
    until: Option<Timestamp>,
) -> Result<Vec<TaskType>> {
    let types = matching_types(store, types).await?;
    if let (Some(until), [first, ..]) = (until, types.as_slice()) {
        let now = store.stats(first).await?.now;
        if until <= now {
            let reason = format!(
                "{until} is over: it is {now} in the store. To end a pause, resume the type"
            );
            return Err(Error::invalid("end of the pause", reason));
        }
        // In another unit it would be a pause for ever.
        check_delay("end of the pause", When::At(until), &Limits::default(), now)?;
    }
    for task_type in &types {
        store.pause(task_type, until).await?;
    }
    Ok(types)
}

/// Ends the pauses of these types and returns the types.
pub(crate) async fn resume(store: &dyn Store, types: &str) -> Result<Vec<TaskType>> {
    let types = matching_types(store, types).await?;
    for task_type in &types {
        store.resume(task_type).await?;
    }
    Ok(types)
}
