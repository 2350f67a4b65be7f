//! `stats`: the numbers of one type.

use clap::Args;
use delayq_plugin::{TaskSubmitService, Timestamp, TypeStats};

use crate::answer::Answer;
use crate::failure::Failure;
use crate::span::{moment, span};
use crate::text::{STRONG, styled};

/// A type.
#[derive(Debug, Args)]
pub(crate) struct StatsArgs {
    /// The type.
    #[arg(value_name = "TYPE")]
    task_type: String,
}

/// Runs the command. A type that the store does not list is nothing found.
pub(super) async fn run(tasks: &TaskSubmitService, args: &StatsArgs) -> Result<Answer, Failure> {
    let stats = tasks.stats(&args.task_type).await?;
    let types = tasks.types().await?;
    let is_listed = types.iter().any(|one| one.as_str() == args.task_type);
    let text = if is_listed {
        text(&args.task_type, &stats)
    } else {
        format!(
            "no type {} in this store and namespace: `delayq types` lists those that there are",
            args.task_type
        )
    };
    Ok(Answer::new(text, stats)?.done_if(is_listed))
}

fn text(task_type: &str, stats: &TypeStats) -> String {
    let at = |time: Option<Timestamp>| time.map_or("-".to_owned(), |time| moment(time, stats.now));
    let paused = match stats.paused_until {
        None => "no".to_owned(),
        Some(Timestamp::MAX) => "until resumed".to_owned(),
        Some(until) => format!("until {}", moment(until, stats.now)),
    };
    let limit = |limit: Option<String>| limit.unwrap_or_else(|| "-".to_owned());
    let totals = stats.totals;
    let rows = [
        ("store's clock", stats.now.to_string()),
        ("scheduled", stats.scheduled.to_string()),
        ("  of them due", stats.due.to_string()),
        ("  the first is due", at(stats.next_due)),
        ("  overdue for", span(stats.oldest_age())),
        ("running", stats.running.to_string()),
        ("dead", stats.dead.to_string()),
        ("paused", paused),
        ("ever done", totals.done.to_string()),
        ("ever dead", totals.dead.to_string()),
        ("ever cancelled", totals.cancelled.to_string()),
        ("ever expired", totals.expired.to_string()),
        ("failed attempts", totals.failed.to_string()),
        ("ended and known", stats.remembered.to_string()),
        ("ends known since", at(stats.remembered_since)),
        (
            "bound",
            limit(stats.max_pending.map(|most| most.to_string())),
        ),
        ("  refused by it", stats.refused.to_string()),
        (
            "fleet concurrency",
            limit(stats.fleet_concurrency.map(|most| most.to_string())),
        ),
        (
            "fleet rate",
            limit(stats.fleet_rate.map(|rate| format!("{rate:?}"))),
        ),
    ];
    let mut text = styled(STRONG, task_type);
    for (name, value) in rows {
        text += &format!("\n{name:<20}{value}");
    }
    text
}
