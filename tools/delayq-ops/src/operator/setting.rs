//! Settings of a type, of which a store may not have all.

use super::{Error, Operator, Result, TaskType, TypeSettings};

/// Changes the settings. Several shards are refused by a store that has none, and so that nothing
/// is changed then, they come first.
pub(super) async fn configure(
    operator: &Operator,
    task_type: &str,
    settings: &TypeSettings,
) -> Result<()> {
    let tasks = &operator.tasks;
    let wanted = settings.shards.filter(|shards| *shards > 1);
    if let Some(shards) = wanted.filter(|_| !operator.is_silent) {
        let task_type = TaskType::new(task_type)?;
        if settings.limits_fleet() {
            let task_type = task_type.to_string();
            return Err(Error::FleetLimitOnShards { task_type, shards });
        }
        let first = TypeSettings::default().shards(shards);
        tasks.configure_type(task_type.as_str(), &first).await?;
        let buckets = tasks.store().buckets(&task_type).await?.len();
        if buckets < usize::try_from(shards).unwrap_or(usize::MAX) {
            let reason = "this store keeps a type in one place and has no shards: leave them out";
            return Err(Error::invalid("setting", reason));
        }
    }
    tasks.configure_type(task_type, settings).await
}
