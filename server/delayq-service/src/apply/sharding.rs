//! What a type can have where its store keeps it: several shards, or limits of the fleet.

use delayq_plugin::store::Setting;
use delayq_plugin::{Error, TaskType};

use super::wanted::TypeState;
use super::{Key, Refusal};
use crate::context::Context;

/// Refuses what the store would refuse once other things are changed.
///
/// # Errors
/// Shards where the store has none, a limit of the fleet together with shards, and store errors.
pub(super) async fn check(context: &Context, key: &Key, state: &TypeState) -> Result<(), Refusal> {
    let settings = &state.settings;
    let wanted = settings.shards.unwrap_or(1);
    if wanted <= 1 && !settings.limits_fleet() {
        return Ok(());
    }
    let store = context.store();
    if !store.has_shards() {
        if wanted <= 1 {
            return Ok(());
        }
        let text = "this store keeps a type in one place and has no shards: leave them out";
        return Err(Refusal::at(key, text));
    }
    let task_type = TaskType::new(&key.name)?;
    let present = u32::try_from(store.buckets(&task_type).await?.len()).unwrap_or(u32::MAX);
    let shards = wanted.max(present);
    let known = context.space.tasks.stats(&key.name).await?;
    let is_limited = has(
        &settings.fleet_concurrency,
        known.fleet_concurrency.is_some(),
    ) || has(&settings.fleet_rate, known.fleet_rate.is_some());
    if shards > 1 && is_limited {
        let task_type = key.name.clone();
        let error = Error::FleetLimitOnShards { task_type, shards };
        return Err(Refusal::at(key, error));
    }
    Ok(())
}

/// True if a limit is there after the change.
fn has<T>(setting: &Setting<T>, is_there: bool) -> bool {
    match setting {
        Setting::Keep => is_there,
        Setting::Unset => false,
        Setting::To(_) => true,
    }
}
