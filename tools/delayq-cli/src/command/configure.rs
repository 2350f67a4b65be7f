//! `configure`, `drop-type`: the settings of a type, and its removal.

use clap::Args;
use delayq_ops::{Operator, known_type, read_rate};
use delayq_plugin::history::{KeptMessage, Recording};
use delayq_plugin::store::Setting;
use delayq_plugin::{Rate, TypeSettings, TypeStats};
use serde_json::json;

use super::stats::rate_text;
use crate::answer::CommandResult;
use crate::consent::ask;
use crate::failure::Failure;

/// The settings to change. All others are kept.
#[derive(Debug, Args)]
pub(crate) struct ConfigureArgs {
    /// The type.
    #[arg(value_name = "TYPE")]
    task_type: String,
    #[command(flatten)]
    settings: SettingArgs,
    /// Make the type if the store does not list it.
    #[arg(long)]
    create: bool,
}

/// The settings.
#[derive(Debug, Args)]
#[group(required = true, multiple = true)]
struct SettingArgs {
    /// Refuse new tasks while this many are scheduled; `none` removes the limit.
    #[arg(long, value_name = "N|none", value_parser = read_count::<u64>)]
    max_pending: Option<Setting<u64>>,
    /// Run at most this many tasks at a time in the whole fleet; with `none` the workers' limits
    /// apply.
    #[arg(long, value_name = "N|none", value_parser = read_count::<u32>)]
    fleet_concurrency: Option<Setting<u32>>,
    /// Start at most this many tasks per time in the whole fleet, such as 100/s, 5/min or 100/h;
    /// with `none` the workers' limits apply.
    #[arg(long, value_name = "RATE|none", value_parser = read_fleet_rate)]
    fleet_rate: Option<Setting<Rate>>,
    /// Give the type at least this many shards, in a store that has shards (Redis); the number
    /// cannot be lowered.
    #[arg(long, value_name = "N")]
    shards: Option<u32>,
    /// Record the ends of tasks for a history: `on` without messages, `all` with them, the part of
    /// a message to keep, such as 1kB, or `off`. A worker with the option sets it again.
    #[arg(long, value_name = "on|off|all|SIZE")]
    history: Option<Recording>,
}

/// The type to drop.
#[derive(Debug, Args)]
pub(crate) struct DropTypeArgs {
    /// The type; it must have no scheduled, running or dead tasks.
    #[arg(value_name = "TYPE")]
    task_type: String,
    /// Do not ask.
    #[arg(long)]
    yes: bool,
}

fn read_count<T: std::str::FromStr>(text: &str) -> Result<Setting<T>, String> {
    if text == "none" {
        return Ok(Setting::Unset);
    }
    let count = text.parse().map(Setting::To);
    count.map_err(|_| format!("{text:?} is neither a number in range nor none"))
}

fn read_fleet_rate(text: &str) -> Result<Setting<Rate>, String> {
    match text {
        "none" => Ok(Setting::Unset),
        text => read_rate(text).map(Setting::To),
    }
}

/// Runs `configure`.
pub(super) async fn configure(
    operator: &Operator,
    args: &ConfigureArgs,
) -> Result<CommandResult, Failure> {
    let (task_type, given) = (&args.task_type, &args.settings);
    let mut settings = TypeSettings::default();
    settings.max_pending = given.max_pending.unwrap_or_default();
    settings.fleet_concurrency = given.fleet_concurrency.unwrap_or_default();
    settings.fleet_rate = given.fleet_rate.unwrap_or_default();
    settings.shards = given.shards;
    if let Some(recording) = given.history {
        settings = settings.history(recording.kept());
    }
    let operator = operator.clone().creating(args.create);
    let configured = operator.configure_type(task_type, &settings).await;
    configured.map_err(Failure::Unmade)?;
    let stats = operator.tasks().stats(task_type).await?;
    let json = json!({
        "type": task_type, "max_pending": stats.max_pending,
        "fleet_concurrency": stats.fleet_concurrency, "fleet_rate": stats.fleet_rate,
        "history": recording(&stats).to_string(),
    });
    CommandResult::new(text(task_type, &stats), json)
}

fn text(task_type: &str, stats: &TypeStats) -> String {
    let or_none = |value: Option<String>| value.unwrap_or_else(|| "none".to_owned());
    format!(
        "{task_type} has now: max pending {}, fleet concurrency {}, fleet rate {}, history {}",
        or_none(stats.max_pending.map(|most| most.to_string())),
        or_none(stats.fleet_concurrency.map(|most| most.to_string())),
        or_none(stats.fleet_rate.as_ref().map(rate_text)),
        recording(stats),
    )
}

fn recording(stats: &TypeStats) -> Recording {
    let kept = stats.history.map(KeptMessage::from_limit);
    kept.map_or(Recording::Off, Recording::On)
}

/// Runs `drop-type`.
pub(super) async fn drop_type(
    operator: &Operator,
    args: &DropTypeArgs,
) -> Result<CommandResult, Failure> {
    let task_type = &args.task_type;
    known_type(operator.tasks(), task_type).await?;
    let plan = format!("drop {task_type} with its settings and the ended tasks that it remembers");
    ask(&plan, args.yes)?;
    operator.drop_type(task_type).await?;
    let text = format!("{task_type} is dropped");
    CommandResult::new(text, json!({"type": task_type}))
}
