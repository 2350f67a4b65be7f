//! Options from a configuration.

use super::DelayQueuePluginBuilder;
use crate::config::Config;

/// Calls the builder's methods for the options in `config`.
pub(super) fn configured(
    mut builder: DelayQueuePluginBuilder,
    config: Config,
) -> DelayQueuePluginBuilder {
    builder.config.merge(config.clone());
    if let Some(url) = config.url {
        builder = builder.url(url.0);
    }
    if let Some(cold) = config.cold_url {
        builder = builder.cold_store(cold.0);
    }
    if let Some(horizon) = config.horizon {
        builder = builder.horizon(horizon);
    }
    if let Some(namespace) = config.namespace {
        builder = builder.namespace(namespace);
    }
    if let Some(durability) = config.durability {
        builder = builder.durability(durability);
    }
    if let Some(retention) = config.retention {
        builder = builder.retention(retention);
    }
    if let Some(timeout) = config.call_timeout {
        builder = builder.call_timeout(timeout);
    }
    if let Some(threads) = config.threads {
        builder = builder.threads(usize::try_from(threads).unwrap_or(usize::MAX));
    }
    if let Some(interval) = config.poll_interval {
        builder = builder.poll_interval(interval);
    }
    if let Some(most) = config.max_lock_expiries {
        builder = builder.max_lock_expiries(most);
    }
    if let Some(url) = config.history {
        builder = builder.history(url.0);
    }
    if let Some(retention) = config.history_retention {
        builder = builder.history_retention(retention);
    }
    if let Some(bytes) = config.history_buffer {
        builder = builder.history_buffer(bytes);
    }
    if let Some(patterns) = config.only {
        builder = builder.only(patterns);
    }
    builder
}
