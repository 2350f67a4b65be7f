//! Reload: new options for the types that are served.

use std::mem::discriminant;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use delayq_core::{OnLate, TaskType, WorkerOptions};

use super::served_type::ServedType;
use super::shared::Shared;
use crate::config::{ChangedOption, Config, ConfigError, Reloaded};
use crate::type_context::TypeContext;
use crate::workers::{TypeWorkers, broken_rule, check_shards, effective};

/// The change of one type.
struct TypeChange {
    task_type: TaskType,
    /// Its workers, with the options that can be applied now.
    workers: TypeWorkers,
    applied: Vec<&'static str>,
    needs_restart: Vec<&'static str>,
}

/// Applies the tables of `config` as far as that is possible now. Changes nothing if it fails.
pub(super) fn reload(shared: &Shared, config: &Arc<Config>) -> Result<Reloaded, ConfigError> {
    shared.registry.check_config(config)?;
    let mut state = shared.state();
    let mut changes = Vec::new();
    for (task_type, served) in &state.types {
        if let Some(wanted) = shared.registry.of_type_by(config, task_type) {
            changes.push(TypeChange::of(&served.context, &wanted, config)?);
        }
    }
    shared.registry.configure(Arc::clone(config));
    shared.settings.slots.forget_set();
    let mut reloaded = Reloaded::default();
    for change in changes {
        let task_type = &change.task_type;
        let named = |option: &&'static str| ChangedOption::of_type(task_type, option);
        reloaded.applied.extend(change.applied.iter().map(named));
        let restart = change.needs_restart.iter().map(named);
        reloaded.needs_restart.extend(restart);
        let served = state.types.get_mut(task_type);
        if let Some(served) = served.filter(|_| !change.applied.is_empty()) {
            change.apply(served);
        }
    }
    drop(state);
    for change in &reloaded.applied {
        if let ("max_pending", Some(task_type)) = (change.option, &change.task_type) {
            shared.mark_stale(task_type);
        }
    }
    Ok(reloaded)
}

impl TypeChange {
    fn of(
        context: &TypeContext,
        wanted: &TypeWorkers,
        config: &Config,
    ) -> Result<Self, ConfigError> {
        let task_type = context.task_type.clone();
        let (now, new) = (context.workers(), wanted.combined());
        let old = now.combined();
        let each = |differ: fn(&WorkerOptions, &WorkerOptions) -> bool| {
            let mut pairs = now.iter().zip(wanted.iter());
            pairs.any(|(now, wanted)| differ(&now.options, &wanted.options))
        };
        let applied = vec![
            ("retry", each(|now, new| now.retry != new.retry)),
            (
                "max_releases",
                each(|now, new| now.max_releases != new.max_releases),
            ),
            ("timeout", old.timeout != new.timeout),
            (
                "on_late",
                discriminant(&old.late.action) != discriminant(&new.late.action),
            ),
            ("late_after", old.late.after != new.late.after),
            ("late_spread", spread(&old) != spread(&new)),
            (
                "fleet_concurrency",
                old.fleet.concurrency != new.fleet.concurrency,
            ),
            ("fleet_rate", old.fleet.rate != new.fleet.rate),
            ("max_pending", old.max_pending != new.max_pending),
            ("concurrency", context.slots.size() != new.concurrency),
        ];
        let needs_restart = vec![
            ("lock", old.lock != new.lock),
            ("weight", old.weight != new.weight),
            ("delivery", old.delivery != new.delivery),
            ("blocking", each(|now, new| now.blocking != new.blocking)),
            ("shards", old.shards != new.shards),
            ("history", old.history != new.history),
        ];
        let workers = now.with_options(wanted, effective);
        check(context, &workers, config)?;
        let only = |options: Vec<(&'static str, bool)>| {
            let changed = options.into_iter().filter(|(_, has_changed)| *has_changed);
            changed.map(|(option, _)| option).collect()
        };
        Ok(Self {
            task_type,
            workers,
            applied: only(applied),
            needs_restart: only(needs_restart),
        })
    }

    fn apply(&self, served: &mut ServedType) {
        served.context.reload(self.workers.clone());
        if self.applied.contains(&"max_pending") {
            served.declare_max_pending();
        }
        if self.applied.contains(&"concurrency") {
            let concurrency = self.workers.combined().concurrency;
            served.context.slots.resize(concurrency);
        }
        // A handler may be sleeping because of a limit that has been raised.
        served.wake(None);
    }
}

fn spread(options: &WorkerOptions) -> Option<Duration> {
    match options.late.action {
        OnLate::Spread(span) => Some(span),
        _ => None,
    }
}

/// Refuses options that contradict those that stay until a restart, or the type's shards.
fn check(context: &TypeContext, workers: &TypeWorkers, config: &Config) -> Result<(), ConfigError> {
    let options = workers.combined();
    let refused = |reason: &str| {
        let reason = format!("{reason}; this change needs a restart, nothing was changed");
        config.refused(&context.task_type, reason)
    };
    if let Some(reason) = broken_rule(&options) {
        return Err(refused(reason));
    }
    let shards = context.handlers.load(Ordering::Relaxed);
    check_shards(context.task_type.as_str(), &options, shards)
        .map_err(|error| refused(&error.to_string()))
}
